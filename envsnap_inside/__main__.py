"""Print the directory to put first on PYTHONPATH, so that every Python process started from there records itself."""

from envsnap_inside import site_directory

print(site_directory())
