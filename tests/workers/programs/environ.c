/* A process that does one thing to its environment, prints what it then holds, a blank line, and waits. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

extern char **environ;

static void *pages(size_t bytes, int protection) {
    return mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static char put[] = "PUT=by reference";
static char *whole[] = {"ONLY=this", "AND=that", NULL};
static char *strange[] = {"NOEQUALS", "=nameless", "TWICE=first", "TWICE=second", "EMPTY=", "BYTES=\xff\xfe", NULL};
static char *endless[4097];
static char *many[4097];
static char *dangling[] = {"GOOD=1", (char *)0x1000, NULL};

static void loop(void) { /* every value is one letter, so that a mixture shows */
    char value[65] = {0};
    for (unsigned i = 0;; i++) {
        memset(value, 'a' + i % 26, 1 + i % 64);
        value[1 + i % 64] = 0;
        setenv("LOOP", value, 1);
        char name[16];
        snprintf(name, sizeof name, "GROW%u", i % 40);
        if (i / 40 % 2) unsetenv(name); else setenv(name, "grown", 1);
    }
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    int show = 1;
    if (!strcmp(mode, "set")) {
        setenv("ADDED", "in C", 1);
        setenv("CHANGED", "after", 1);
        unsetenv("REMOVED");
        putenv(put);
    } else if (!strcmp(mode, "whole")) {
        environ = whole;
    } else if (!strcmp(mode, "clear")) {
        clearenv();
    } else if (!strcmp(mode, "strange")) {
        environ = strange;
    } else if (!strcmp(mode, "long")) {
        char *text = malloc(200001);
        memset(text, 'x', 200000);
        text[200000] = 0;
        setenv("LONG", text, 1);
    } else if (!strcmp(mode, "loop")) {
        printf("\n");
        fflush(stdout);
        loop();
    } else {
        show = 0;
        if (!strcmp(mode, "cyclic")) {
            char **page = pages(1 << 20, PROT_READ | PROT_WRITE);
            for (int i = 0; i < (1 << 17); i++) page[i] = (char *)page;
            environ = page;
        } else if (!strcmp(mode, "unmapped")) {
            environ = (char **)0x1000;
        } else if (!strcmp(mode, "kernel")) {
            environ = (char **)0xffffffffff600000;
        } else if (!strcmp(mode, "unended")) { /* the array fills its page, and nothing is mapped behind it */
            char *page = pages(8192, PROT_READ | PROT_WRITE);
            munmap(page + 4096, 4096);
            for (int i = 0; i < 512; i++) ((char **)page)[i] = "A=1";
            environ = (char **)page;
        } else if (!strcmp(mode, "unended-string")) {
            char *page = pages(8192, PROT_READ | PROT_WRITE);
            munmap(page + 4096, 4096);
            memset(page, 'A', 4096);
            static char *one[2];
            one[0] = page;
            environ = one;
        } else if (!strcmp(mode, "dangling")) {
            environ = dangling;
        } else if (!strcmp(mode, "endless")) {
            char *text = pages(64 << 20, PROT_READ | PROT_WRITE);
            memset(text, 'A', 64 << 20);
            for (int i = 0; i < 4000; i++) endless[i] = text + i * 16384;
            environ = endless;
        } else if (!strcmp(mode, "many")) {
            for (int i = 0; i < 4097; i++) many[i] = "A=1";
            environ = many;
        } else if (!strcmp(mode, "exit")) {
            printf("\n");
            fflush(stdout);
            getchar();
            return 0;
        }
    }
    if (show && environ)
        for (char **e = environ; *e; e++) puts(*e);
    printf("\n");
    fflush(stdout);
    pause();
    return 0;
}
