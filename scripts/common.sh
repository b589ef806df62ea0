# Sourced by the other scripts: messages, administrator's rights, and
# the Rust toolchain.
# shellcheck shell=bash disable=SC2034

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '%s\n' "$*" >&2; }

# Prints one line that says what to do, and exits.
give_up() {
    say "make: $*"
    exit 1
}

# How to run a command as root: with nothing, with sudo, or not at all.
as_root=()
may_be_root() {
    as_root=()
    [ "$(id -u)" -eq 0 ] && return 0
    command -v sudo >/dev/null || return 1
    as_root=(sudo)
    # A password can be entered on a terminal only.
    sudo -n true 2>/dev/null || { [ -t 0 ] && [ -t 2 ]; }
}

# The owner of the checkout, if another user runs us: `sudo make`.
owner() {
    if [ "$(id -u)" -eq 0 ] && [ "${SUDO_UID:-0}" -ne 0 ] &&
        [ "$(stat -c %u "$root")" -eq "$SUDO_UID" ]; then
        id -nu "$SUDO_UID" 2>/dev/null
    fi
}

# Runs a command as that user, so that no file of root is left in the tree.
as_owner() {
    local user home
    user=$(owner)
    if [ -z "$user" ]; then
        "$@"
        return
    fi
    home=$(getent passwd "$user" | cut -d: -f6)
    runuser -u "$user" -- env -u SUDO_UID -u CARGO -u CARGO_HOME -u RUSTUP_HOME HOME="$home" "$@"
}

# Cargo's target directory.
target=${CARGO_TARGET_DIR:-target}

# The oldest Rust that Cargo.toml accepts.
rust_version() { sed -n 's/^rust-version = "\(.*\)"/\1/p' "$root/Cargo.toml"; }

# at_least WANTED FOUND: compares dotted versions.
at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }

# The version that a cargo or rustc reports; empty if it can't run.
version_of() { (cd "$root" && "$1" --version 2>/dev/null) | awk 'NR == 1 { print $2 }'; }

# Every cargo that this machine may have, with its compiler, best first. Ubuntu's
# packages put the version into the name.
cargo_candidates() {
    local path
    if [ -n "${CARGO:-}" ]; then
        echo "$(command -v "$CARGO" || echo "$CARGO") ${RUSTC:-rustc}"
    fi
    path=$(command -v cargo) && echo "$path rustc"
    for path in "${CARGO_HOME:-$HOME/.cargo}/bin/cargo" /usr/local/cargo/bin/cargo /usr/bin/cargo; do
        [ -x "$path" ] && echo "$path rustc"
    done
    for path in $(compgen -G '/usr/bin/cargo-1.[0-9]*' | sort -Vr); do
        [ -x "${path/cargo-/rustc-}" ] && echo "$path ${path/cargo-/rustc-}"
    done
    return 0
}

# Sets `cargo` to one that is new enough, and exports what it needs. Otherwise
# `rust_found` lists what was found.
rust_found=
find_cargo() {
    local path compiler wanted version compiled
    wanted=$(rust_version)
    rust_found=
    while read -r path compiler; do
        version=$(version_of "$path")
        if [ -z "$version" ]; then
            rust_found=${rust_found:-"$path does not run"}
            continue
        fi
        compiled=$(PATH="${path%/*}:$PATH" version_of "$compiler")
        if [ -z "$compiled" ]; then
            rust_found=${rust_found:-"cargo $version ($path) has no rustc"}
        elif at_least "$wanted" "$version" && at_least "$wanted" "$compiled"; then
            cargo=$path
            # Its rustc and its other parts are in the same directory.
            [[ $path == /usr/bin/* ]] || export PATH="${path%/*}:$PATH"
            if [ "$compiler" != rustc ]; then export RUSTC=$compiler; fi
            return 0
        else
            rust_found=${rust_found:-"cargo $version with rustc $compiled ($path) is too old"}
        fi
    done < <(cargo_candidates)
    rust_found=${rust_found:-"there is no cargo"}
    return 1
}

no_rust="install Rust $(rust_version) or newer (https://www.rust-lang.org/tools/install), then run make again"
