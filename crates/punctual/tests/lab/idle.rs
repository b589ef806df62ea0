//! The idle loop of a guest is emulated without its `PAUSE`, which nothing in the guest can tell; and as
//! one block, which moves a wake-up from idle by no more than a turn of it.

use std::fs;

use std::path::Path;

use punctual_lab::kernel::idle_loop::TURN;
use punctual_lab::kernel::{self, Cache, Kernel};

use serde_json::Value;

use super::common::{Place, need, read_json};
use super::{lab, ready};
use punctual_record::laboratory::Architecture;

#[test]
fn a_guest_is_the_same_with_the_pause_of_its_idle_loop_and_without() {
    need!(ready());
    let place = Place::new();
    let cache = Cache::for_user().expect("a cache");
    let find = |asked: &str| -> Kernel {
        kernel::find(asked, Architecture::Amd64, &cache, &mut |_| {}).expect("a kernel")
    };
    let kernel = find("rt");
    let symbols = kernel.symbols().expect("symbols");
    let mut image = fs::read(&kernel.image).expect("an image");
    // The idle loop's, one in each way to measure the timer of the local APIC, and one in a test of timers.
    assert_eq!(kernel.patches.len(), 4, "{:?}", kernel.patches);
    let merged = &kernel.patches[0];
    assert_eq!(merged.bytes.len(), 38);
    let plain = place.path().join("plain").display().to_string();
    fs::write(&plain, &image).expect("written");
    assert_eq!(find(&plain).patches, kernel.patches);
    let write = |name: &str, image: &[u8]| -> String {
        let path: &Path = &place.path().join(name);
        fs::write(path, image).expect("written");
        path.display().to_string()
    };
    let at = merged.at as usize;
    // Its last jump leads elsewhere, where it is never executed: the loop is not known, its PAUSE is.
    let last = at + merged.bytes.len() - 1;
    image[last] += 1;
    let apart = write("apart", &image);
    let [pause, others @ ..] = &find(&apart).patches[..] else {
        panic!("{apart}: nothing found");
    };
    assert_eq!((pause.at, pause.bytes.len()), (merged.at, 2));
    assert_eq!(others, &kernel.patches[1..]);
    // A second one, behind the function's last instruction, where nothing is executed: it can't be told
    // which one is the loop's, and the image is booted as it is.
    let (begin, end) = symbols.range("cpu_idle_poll").expect("its function");
    let padding = image[at..at + (end - begin) as usize]
        .windows(8)
        .position(|bytes| bytes == [0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0])
        .expect("padding behind a jump");
    image[at + padding..][..2].copy_from_slice(&[0xf3, 0x90]);
    assert_eq!(find(&write("marked", &image)).patches, kernel.patches[1..]);

    let result = |kernel: &str| {
        let to = format!("of-{}", &kernel[2..]);
        let words = [
            "--kernel",
            kernel,
            "--load",
            "idle",
            "--no-explain",
            "-o",
            &to,
        ];
        let measured = ["--", "measure", "nanosleep", "-l", "100"];
        lab(&place, &[&words[..], &measured].concat()).expect(0);
        let lab = read_json(&place.path().join(to).join("lab.json"));
        let cell = lab["cells"][0].clone();
        let sum = |name: &str| cell["laboratory"]["fingerprint"][name].clone();
        (
            sum("kernel_sha256"),
            sum("result_sha256"),
            cell["figures"].clone(),
        )
    };
    let (plain, apart, marked) = (result("./plain"), result("./apart"), result("./marked"));
    assert_ne!(apart.0, marked.0);
    assert_eq!(apart.1, marked.1);
    assert_ne!(plain.1, marked.1);
    for figure in ["min_ns", "p50_ns"] {
        let of = |figures: &Value| figures[figure].as_u64().expect("a number");
        let apart_by = of(&plain.2).abs_diff(of(&marked.2));
        assert!(
            apart_by <= TURN as u64,
            "{figure}: {} {}",
            plain.2,
            marked.2
        );
    }
}
