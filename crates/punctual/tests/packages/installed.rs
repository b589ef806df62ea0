//! Installed, used and purged, over a copy of this machine's files that is thrown away.

use std::fs;
use std::path::Path;

use crate::common::mounts::in_own_mounts;
use crate::common::needs::{self, Absent};
use crate::common::{Place, flat, need};
use crate::made::{dpkg, only, packages, with_units};

/// What is written goes into `upper`. The script `inside` runs with the packages beside it.
const COPY: &str = "mkdir files || exit 77
mount -t tmpfs none files || exit 77
cd files
mkdir upper work copy
mount -t overlay overlay -o lowerdir=/,upperdir=upper,workdir=work copy || exit 77
# A machine whose folders are mounts has not all of them below its root.
[ -x copy/bin/sh ] && [ -d copy/var/lib/dpkg/info ] || exit 78
# A journal of this machine's own settings is not for the packages.
rm -rf copy/var/lib/punctual*
for folder in proc sys dev; do mount --rbind /$folder copy/$folder || exit 77; done
mkdir -p copy/tmp/debs
cp ../inside ../*.deb copy/tmp/debs
chroot copy env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \\
    sh -ec 'cd /tmp/debs; . ./inside' || exit 1
rm -rf copy/tmp/debs
";

/// Runs a script inside of the copy and one outside after it, or says why that can't be.
fn with_copy(packages: fn() -> &'static Path, inside: &str, after: &str) -> Result<String, Absent> {
    dpkg()?;
    needs::overlays()?;
    if fs::exists("/var/lib/dpkg/info/punctual.list").unwrap_or_default() {
        let what = "a system without the package punctual, which is installed here";
        return Err(Absent::program(what));
    }
    let place = Place::new();
    for name in ["punctual_", "libpunctual0_", "libpunctual-dev_"] {
        let package = only(packages(), name, ".deb");
        let link = place.path().join(package.file_name().expect("a name"));
        std::os::unix::fs::symlink(package, link).expect("a link");
    }
    fs::write(place.path().join("inside"), inside).expect("written");
    let ended = in_own_mounts(&place, &[COPY, after].concat())?;
    if ended.status.code() == Some(78) {
        return Err(Absent::hardware("a root file system with /bin and /var"));
    }
    let (said, errors) = (
        String::from_utf8_lossy(&ended.stdout).into_owned(),
        String::from_utf8_lossy(&ended.stderr).into_owned(),
    );
    assert!(ended.status.success(), "{said}\n{errors}");
    Ok(said)
}

#[test]
fn install_use_and_purge_leave_nothing() {
    let inside = "
        dpkg -i ./*.deb
        punctual --version
        punctual measure timerfd -D 1 --best-effort -o run
        if command -v gcc && command -v pkg-config; then
            cat >a.c <<'END'
            #include <punctual.h>
            #include <stdio.h>
            int main(void) { return punctual_now_ns() > 0 && puts(\"linked\") < 0; }
END
            gcc a.c -o a $(pkg-config --cflags --libs punctual)
            ./a
        fi
        dpkg --purge libpunctual-dev libpunctual0 punctual
        if dpkg-query -W punctual libpunctual0; then exit 1; fi
        if ldconfig -p | grep -v /usr/local | grep punctual; then exit 1; fi
    ";
    // Names: what the machine itself lacks. Contents: what is different now.
    let after = "cd upper
        find . -mindepth 1 | while read -r path; do
            case $path in ./var/lib/punctual*) [ -c \"$path\" ] || echo \"NEW $path\"; continue ;; esac
            if [ ! -e \"/$path\" ] && [ ! -L \"/$path\" ]; then echo \"NEW $path\"
            elif [ -c \"$path\" ]; then echo \"GONE $path\"
            elif [ -f \"$path\" ]; then echo \"CHANGED $path\"; fi
        done
    ";
    let said = need!(with_copy(packages, inside, after));
    let version = concat!("punctual ", env!("CARGO_PKG_VERSION"));
    assert!(said.contains(version), "{said}");
    // Caches and journals of others, which dpkg and its triggers write.
    let others = [
        "./var/lib/dpkg/",
        "./var/log/",
        "./var/cache/",
        "./etc/ld.so.cache",
    ];
    for line in said.lines() {
        let Some((kind, path)) = line.split_once(' ') else {
            continue;
        };
        let is_others = others.iter().any(|it| path.starts_with(it));
        // dpkg numbers its updates, and removes them.
        let is_left = match kind {
            "NEW" | "GONE" => !is_others || path.contains("punctual"),
            "CHANGED" => !is_others,
            _ => false,
        };
        assert!(!is_left, "{line}\n{said}");
    }
}

/// The program restores what it changed as long as it is there.
#[test]
fn removal_restores_settings_or_is_refused() {
    let inside = "
        dpkg -i ./punctual_*.deb >/dev/null
        echo 1 >/tmp/setting
        punctual tune apply /tmp/setting=2
        echo changed to $(cat /tmp/setting)
        # Reinstalled: nothing is restored.
        dpkg -i ./punctual_*.deb >/dev/null
        echo still $(cat /tmp/setting)
        dpkg --remove punctual
        echo restored to $(cat /tmp/setting)
        ls /var/lib/punctual
        dpkg --purge punctual >/dev/null
        [ ! -e /var/lib/punctual ]

        dpkg -i ./punctual_*.deb >/dev/null
        punctual tune apply /tmp/setting=2 >/dev/null
        echo 3 >/tmp/setting
        if dpkg --remove punctual 2>&1; then exit 1; fi
        punctual tune restore --force
        echo forced to $(cat /tmp/setting)
        dpkg --purge punctual >/dev/null
        [ ! -e /usr/bin/punctual ]
        [ ! -e /var/lib/punctual ]";
    let said = flat(&need!(with_copy(packages, inside, "")));
    for words in [
        "changed to 2",
        "still 2",
        "restored to 1",
        "journal.old.jsonl",
        "the package is not removed",
        "forced to 1",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn units_are_not_enabled_and_end_with_the_package() {
    let inside = "
        dpkg -i ./punctual_*.deb >/dev/null
        systemctl --root=/ is-enabled punctual-a.service || true
        systemctl --root=/ enable punctual-a.service punctual-b@1.service
        [ -L /etc/systemd/system/multi-user.target.wants/punctual-b@1.service ]
        # As the service leaves it.
        mkdir -p /var/lib/private/punctual-watch/run
        ln -s private/punctual-watch /var/lib/punctual-watch
        dpkg --remove punctual
        ls /etc/systemd/system/*/ | grep punctual- || echo disabled
        ls /var/lib/punctual-watch/
        dpkg --purge punctual
        ls /var/lib/private /var/lib | grep punctual || echo purged";
    need!(needs::program("systemctl"));
    let said = need!(with_copy(with_units, inside, ""));
    let lines: Vec<&str> = said.lines().collect();
    for line in ["disabled", "run", "purged"] {
        assert!(lines.contains(&line), "{line}: {said}");
    }
    let enabled = lines.iter().position(|line| *line == "enabled");
    assert!(enabled.is_none(), "{said}");
}
