"""Print the directory to put first on PYTHONPATH, so that every Python process started from there records itself."""

from envsnap.integrations import site_directory

print(site_directory())
