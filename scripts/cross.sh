# Sourced after common.sh: what a build for another architecture needs.
# shellcheck shell=bash disable=SC2034,SC2154

# Sets `triple` and `cc`, Rust's and the C compiler's names of an architecture, which is named as Debian
# names it, and `setting`, what the names of cargo's variables for it begin with.
names_of() {
    case $1 in
    amd64) triple=x86_64-unknown-linux-gnu cc=x86_64-linux-gnu-gcc ;;
    arm64) triple=aarch64-unknown-linux-gnu cc=aarch64-linux-gnu-gcc ;;
    riscv64) triple=riscv64gc-unknown-linux-gnu cc=riscv64-linux-gnu-gcc ;;
    *) give_up "ARCH=$1: expected amd64, arm64 or riscv64" ;;
    esac
    setting=${triple^^}
    setting=CARGO_TARGET_${setting//-/_}
}

# Whether a compiler has the standard library of $triple.
has_std() { [ -d "$("$1" --print sysroot 2>/dev/null)/lib/rustlib/$triple/lib" ]; }

# Exports the linker of an architecture, and a compiler with its standard library, for scripts/cargo. Fails
# if this machine has none; scripts/need ARCH gets it.
cross() {
    local cargo unpacked=$root/target/tools/cross
    names_of "$1"
    find_cargo || give_up "$rust_found: $no_rust"
    command -v "$cc" >/dev/null || return 1
    export "${setting}_LINKER=$cc"
    has_std "${RUSTC:-rustc}" && return 0
    [ -x "$unpacked/usr/bin/rustc" ] || return 1
    export CARGO=$cargo RUSTC=$unpacked/usr/bin/rustc
    LD_LIBRARY_PATH=$(dirname "$(compgen -G "$unpacked/usr/lib/*/librustc_driver-*.so")")
    export LD_LIBRARY_PATH
    has_std "$RUSTC"
}

# apt with its state in a folder of ours: the packages of another architecture are listed and fetched,
# and nothing of this machine changes.
foreign_apt() {
    local state=$1
    shift
    "$1" -c "$state/apt.conf" "${@:2}" </dev/null
}

# foreign_lists FOLDER ARCH [FROM TO]: that folder, with the machine's sources; of another release, if
# two names of releases are given.
foreign_lists() {
    local state=$1 parts=/etc/apt/sources.list.d list=/etc/apt/sources.list
    mkdir -p "$state"/{lists,cache/archives}/partial "$state/parts"
    : >"$state/status"
    if [ $# -gt 2 ]; then
        cp "$parts"/*.sources "$parts"/*.list "$state/parts" 2>/dev/null || true
        [ ! -e "$list" ] || cp "$list" "$state/parts/sources.list"
        sed -i "s/\b$3\b/$4/g" "$state/parts"/* 2>/dev/null || true
        parts=$state/parts list=/dev/null
    fi
    cat >"$state/apt.conf" <<END
Dir::State "$state";
Dir::State::Lists "$state/lists";
Dir::State::status "$state/status";
Dir::Cache "$state/cache";
Dir::Etc::sourcelist "$list";
Dir::Etc::sourceparts "$parts";
APT::Architecture "$2";
APT::Architectures { "$2"; "$(dpkg --print-architecture)"; };
END
    foreign_apt "$state" apt-get -q -o Acquire::Retries=3 update >/dev/null 2>&1 || true
}

# The version of a package, without Debian's own part; nothing if the lists lack it.
upstream() {
    foreign_apt "$1" apt-cache policy "$2" 2>/dev/null |
        sed -n 's/^ *Candidate: //p' | sed 's/(none)//; s/-[^-]*$//'
}

# Unpacks the compiler that Debian backports for its browsers, and its standard library of another
# architecture, into target/tools/cross. riscv64 is a part of Debian since 13.
unpack_cross() {
    local arch=$1 host lists wanted std folder=$root/target/tools/cross names packages name
    command -v dpkg-deb >/dev/null && command -v apt-get >/dev/null || return 1
    host=$(dpkg --print-architecture)
    mkdir -p "$folder/debs"
    lists=$folder/lists-$arch
    foreign_lists "$lists" "$arch"
    wanted=$(upstream "$lists" "rustc-web:$host")
    [ -n "$wanted" ] || return 1
    std=$lists
    if [ "$(upstream "$std" "libstd-rust-web-dev:$arch")" != "$wanted" ]; then
        std=$folder/lists-$arch-next
        foreign_lists "$std" "$arch" bookworm trixie
        [ "$(upstream "$std" "libstd-rust-web-dev:$arch")" = "$wanted" ] || return 1
    fi
    packages=("rustc-web:$host" "libstd-rust-web-dev:$host")
    # The compiler's own libraries: libstd-rust-web-1.96, libllvm22.
    names="libstd-rust-web-dev"
    for name in libstd-rust-web- libllvm; do
        names=$(foreign_apt "$lists" apt-cache depends "$names:$host" 2>/dev/null |
            sed -n "s/^ *Depends: \(${name}[0-9.]*\)\b.*/\1/p" | head -n 1)
        packages+=("$names:$host")
    done
    (
        cd "$folder/debs" && rm -f ./*.deb &&
            foreign_apt "$lists" apt-get -q download "${packages[@]}" &&
            foreign_apt "$std" apt-get -q download "libstd-rust-web-dev:$arch" &&
            for name in *.deb; do dpkg-deb -x "$name" "$folder" || exit 1; done
    ) >/dev/null 2>&1 || return 1
    rm -rf "$folder/debs" "$folder"/lists-*
}
