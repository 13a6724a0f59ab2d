/* Stands for a vendor's library: TEXT is the version that it says of itself. */
const char version_text[] = TEXT;
int version(void) { return version_text[0]; }
