/* A network device with NAPI, until standard input ends. Threaded NAPI of it is a thread of the kernel. */
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
int main(void) {
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_NAPI};
    strcpy(request.ifr_name, "punctual%d");
    int tun = open("/dev/net/tun", O_RDWR);
    if (tun < 0 || ioctl(tun, TUNSETIFF, &request) < 0) {
        perror("/dev/net/tun");
        return 77;
    }
    puts(request.ifr_name);
    fflush(stdout);
    char byte;
    return read(0, &byte, 1) < 0;
}
