//! What a seed of each parser says: a parser that refused every input would pass the fuzzer's
//! checks. The expected values were read with other tools (`readelf -lsn`, `tar tv`, `xxd`), or are
//! calculated here from the seed's bytes.

use punctual_record::cost::Cost;
use punctual_record::fit::Fit;
use punctual_record::lab::Lab;
use punctual_record::{Document, Run};
use std::fs;
use std::io::{Cursor, Read};
use std::path::Path;

use punctual_lab::kernel::image::{self, Kind};
use punctual_lab::kernel::modules::depends;
use punctual_lab::kernel::package;
use punctual_lab::kernel::unpack::Packing;
use punctual_lab::rootfs::{archive, tree::Tree};
use punctual_lab::{channel, libraries, room::Room};
use punctual_machine::{CheckRequest, Root, Snapshot, check};
use punctual_network::ancillary::Ancillary;
use punctual_network::wire::control::Frame;
use punctual_network::wire::data;
use punctual_record::explanation::Cause;
use punctual_record::finding::{FindingId, StateKind};
use punctual_record::ladder::{Ladder, Rung};
use punctual_report::formats::detect_and_parse;
use punctual_rt::channel::{FrameError, Kind as FrameKind};
use punctual_trace::capture::layout::{self, Layout};
use punctual_trace::foreign::{Recording, open};
use punctual_trace::tracers::lines::{Line, Lines};
use punctual_trace::watch::marks::image::Image;
use punctual_trace::watch::marks::spec::{self, MarkPlace, MarkShape};

mod guest;

use guest::{kernel_symbols, lab_bound, lab_observer};

/// For each target, a test of at least one of its seeds.
pub const KNOWN: &[(&str, fn())] = &[
    ("channel_frames", channel_frames),
    ("cost", cost),
    ("cyclictest", cyclictest),
    ("fit", fit),
    ("foreign", foreign),
    ("kernel_image", kernel_image),
    ("kernel_package", kernel_package),
    ("kernel_symbols", kernel_symbols),
    ("kernel_tables", kernel_tables),
    ("lab", lab),
    ("lab_bound", lab_bound),
    ("lab_observer", lab_observer),
    ("ladder", ladder),
    ("marks", marks),
    ("path_wire", path_wire),
    ("record", record),
    ("recording", recording),
    ("rootfs", rootfs),
    ("snapshot", snapshot),
    ("taskset", taskset),
    ("tracer_lines", tracer_lines),
    ("window", window),
];

/// A file of the repository.
fn file(path: &str) -> Vec<u8> {
    fs::read(super::root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn seed(path: &str) -> Vec<u8> {
    file(&format!("fuzz/seeds/{path}"))
}

/// Count and maximum in ns of each thread.
fn threads(path: &str) -> Vec<(u64, u64)> {
    let run = detect_and_parse(Path::new(path), &file(path)).expect("a run");
    let of = |thread: &punctual_record::Thread| (thread.latency.count, thread.latency.max_ns);
    run.threads.iter().map(of).collect()
}

/// `# Total` counts what the histogram holds; the maximum lies beyond it.
fn cyclictest() {
    const FILE: &str = "crates/report/tests/data/formats/cyclictest-h20-overflow.txt";
    assert_eq!(threads(FILE), [(3_986 + 1, 81_000), (3_989 + 1, 39_000)]);
}

fn foreign() {
    const FOLDER: &str = "crates/report/tests/data/formats";
    let of = |name: &str| threads(&format!("{FOLDER}/{name}"));
    assert_eq!(of("jitterdebugger-ns.json"), [(1, 40_712), (1, 30_747)]);
    let own = threads("crates/record/tests/data/run-2.json");
    assert_eq!(own, [(200, 19_065)]);
}

fn kernel_image() {
    let elf = seed("kernel_image/elf");
    let Kind::Elf(headers) = image::kind(&elf) else {
        panic!("{:?}", image::kind(&elf));
    };
    assert_eq!(headers.notes, [(0xb0, 0x3c)]);
    let notes = seed("kernel_image/notes");
    assert_eq!(elf[0xb0..][..0x3c], notes);
    assert!(image::has_entry_for_guests(&notes));
    for (name, packing) in [
        ("gzip", Packing::Gzip),
        ("lz4", Packing::Lz4),
        ("lzma", Packing::Lzma),
        ("xz", Packing::Xz),
        ("xz-x86", Packing::Xz),
        ("zstd", Packing::Zstd),
    ] {
        let packed = seed(&format!("kernel_image/{name}"));
        assert_eq!(Packing::detect(&packed), Some(packing), "{name}");
        assert!(unpacked(packing, &packed) == elf, "{name}");
    }

    let whole = seed("kernel_image/bzimage");
    let Kind::BzImage(parts) = image::kind(&whole) else {
        panic!("{:?}", image::kind(&whole));
    };
    assert_eq!(parts.release.as_deref(), Some("6.99.1"));
    let begin = usize::try_from(parts.payload).expect("a place");
    let packed = &whole[begin..][..parts.length as usize];
    let kernel = unpacked(Packing::detect(packed).expect("a packing"), packed);
    let stated = packed.last_chunk().copied().map(u32::from_le_bytes);
    assert_eq!(Some(kernel.len()), stated.map(|length| length as usize));
    assert!(matches!(image::kind(&kernel), Kind::Elf(_)));

    let needed = depends(&seed("kernel_image/module"));
    assert_eq!(needed, Some(vec!["b".to_owned(), "c".to_owned()]));
}

fn unpacked(packing: Packing, packed: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let stream = packing.unpack(packed).expect("a stream");
    stream.take(1 << 20).read_to_end(&mut bytes).expect("bytes");
    bytes
}

/// The ordinary files of a tar: their paths and sizes.
fn sizes(tar: impl Read) -> Vec<(String, u64)> {
    let mut sizes = Vec::new();
    let each = |path: &str, content: &mut dyn Read| {
        let size = std::io::copy(content, &mut std::io::sink())?;
        sizes.push((path.to_owned(), size));
        Ok(())
    };
    package::files(tar, |error| error, each).expect("a tar");
    sizes
}

fn kernel_package() {
    for name in ["deb-gz", "deb-xz", "deb-zst"] {
        let bytes = seed(&format!("kernel_package/{name}"));
        let mut file = Cursor::new(&bytes);
        let members = package::members(&mut file, bytes.len() as u64).expect("members");
        assert_eq!(members.len(), 3, "{name}: {members:?}");
        let tar = package::tar(&mut file, &members, "control.tar").expect("control.tar");
        let control = package::control(tar).expect("control data");
        assert_eq!(control.package, "linux-image-6.99", "{name}");
        assert_eq!(control.version, "6.99.1-7", "{name}");
        assert_eq!(control.depends, ["a", "b"], "{name}");
        // That of the third ends within its second file.
        if name == "deb-zst" {
            continue;
        }
        let tar = package::tar(&mut file, &members, "data.tar").expect("data.tar");
        let expected = [("boot/vmlinuz-6.99", 140), ("lib/modules/6.99/a.ko", 1)];
        let expected = expected.map(|(path, size)| (path.to_owned(), size));
        assert_eq!(sizes(tar), expected, "{name}");
    }
    let plain = seed("kernel_package/tar");
    assert_eq!(sizes(&plain[..]), [("boot/a".to_owned(), 1)]);
    let control = seed("kernel_package/control");
    let control = package::paragraph(std::str::from_utf8(&control).expect("text"));
    assert_eq!(control.architecture, "amd64");
}

fn kernel_tables() {
    // `pcpu_hot` at 0x2000, and its member of the preemption count after 64 bits.
    let expected = Layout {
        runqueues: 0x1000,
        preempt_count: 0x2008,
        ..Layout::default()
    };
    assert_eq!(layout::parse(&seed("kernel_tables/btf")), expected);
    let text = String::from_utf8(seed("kernel_tables/kallsyms")).expect("text");
    let symbols = punctual_trace::capture::symbols::Symbols::parse(&text);
    let name = symbols.name(0xffff_ffff_8100_0101);
    assert_eq!(name.as_deref(), Some("second+0x1"));
}

fn lab() {
    let stream = seed("lab/frames");
    let frames = channel::parse(&stream).expect("whole frames");
    assert_eq!(frames["out/a"], b"text\n");
    assert_eq!(frames["out/run.json"], b"{}");
    let program = libraries::parse(&seed("lab/program")).expect("a program");
    let interpreter = "/lib64/ld-linux-x86-64.so.2";
    assert_eq!(program.interpreter.as_deref(), Some(interpreter));
    assert_eq!(program.needed, ["libc.so.6"]);
    assert_eq!(program.folders, ["/opt/a", "/opt/b"]);
    let lab = Lab::parse(Path::new("lab.json"), &seed("lab/lab.json")).expect("a lab's record");
    let figures: Vec<Option<u64>> = lab
        .cells
        .iter()
        .map(|cell| cell.figures.as_ref().map(|figures| figures.max_ns))
        .collect();
    assert_eq!(figures, [Some(4_698), None]);
}

/// What docs/channel.md says of the framing, in bytes.
fn channel_frames() {
    let bytes = seed("channel_frames/mixed");
    let found = super::channel_frames::frames(&bytes, 7);
    let found = found.expect("frames");
    let expected = [
        (FrameKind::Message, 0, 0, &b"ping"[..]),
        (FrameKind::Padding, 0, 0, b""),
        (FrameKind::Padding, 0, 0, b""),
        (
            FrameKind::Stamped,
            2_000,
            1_000_000_007,
            b"deadline of 2 ms",
        ),
        (
            FrameKind::StampedRealtime,
            1,
            1_700_000_000_000_000_000,
            b"",
        ),
        (FrameKind::Padding, 0, 0, b"with a payload"),
    ];
    assert_eq!(found.len(), expected.len());
    for ((header, payload), (kind, deadline_us, stamp_ns, text)) in found.iter().zip(expected) {
        assert_eq!((header.kind, header.deadline_us), (kind, deadline_us));
        assert_eq!((header.stamp_ns, payload.as_slice()), (stamp_ns, text));
    }
    for (name, error) in [
        ("http", FrameError::NotAFrame),
        ("too-long", FrameError::TooLong),
    ] {
        let bytes = seed(&format!("channel_frames/{name}"));
        assert_eq!(
            super::channel_frames::frames(&bytes, 7),
            Err(error),
            "{name}"
        );
    }
}

fn cost() {
    let read = |name: &str| Cost::parse(Path::new(name), &seed(&format!("cost/{name}")));
    let cost = read("cost.json").expect("a cost");
    assert_eq!((cost.runs.len(), cost.treatments.len()), (20, 4));
    let results = cost.results.expect("what follows from the runs");
    assert!(results.treatments.iter().all(|it| it.pairs == 2));
    for (name, says) in [
        ("newer.json", "version"),
        ("no-machine.json", "a machine that is not there"),
        ("no-load.json", "a utilisation that is none"),
        ("too-long.json", "more than a year"),
        ("twice.json", "the same run of the same pair twice"),
    ] {
        let refused = read(name).expect_err(name).to_string();
        assert!(refused.contains(says), "{refused}");
    }
}

fn fit() {
    let read = |name: &str| Fit::parse(Path::new(name), &seed(&format!("fit/{name}")));
    let fit = read("fit.json").expect("a fit");
    assert_eq!(
        (fit.steps.len(), fit.kept.len(), fit.untried_boot.len()),
        (3, 2, 1)
    );
    for (name, says) in [
        ("leads-out.json", "no directory within that of the fit"),
        ("no-ratio.json", "a ratio of"),
        ("too-many-knobs.json", "at most 256 are allowed"),
        ("newer.json", "version"),
    ] {
        let refused = read(name).expect_err(name).to_string();
        assert!(refused.contains(says), "{refused}");
    }
}

fn ladder() {
    let read = |name: &str| Ladder::parse(Path::new(name), &seed(&format!("ladder/{name}")));
    let whole = read("whole.json").expect("a ladder");
    assert_eq!(whole.measured(), Rung::ALL);
    assert_eq!((whole.blocks.len(), whole.steps.len()), (105, 7));
    let single = read("single.json").expect("a rung");
    assert_eq!(single.measured(), [Rung::Priority]);
    assert_eq!(single.rungs[2].response.count, 2_000);
    let refused = read("uncounted.json")
        .expect_err("one too many")
        .to_string();
    assert!(
        refused.contains("not one response time for each cycle"),
        "{refused}"
    );
}

/// A made-up machine whose tick, swap and huge pages are known.
fn snapshot() {
    let snapshot = Snapshot::parse(&seed("snapshot/small.json")).expect("a snapshot");
    let found = check(&Root::of_snapshot(snapshot), &CheckRequest::default());
    assert_eq!(
        (found.kernel.as_str(), &found.cpus[..]),
        ("6.1.0-18-rt-amd64", &[2, 3][..])
    );
    let state = |id| found.finding(id).expect("each").state.kind();
    for (id, kind) in [
        (FindingId::RtKernel, StateKind::Ok),
        (FindingId::NohzFull, StateKind::Ok),
        (FindingId::Swap, StateKind::Bad),
        (FindingId::TransparentHugepages, StateKind::Unknown),
        (FindingId::DmaLatencyAccess, StateKind::Bad),
        (FindingId::PosixOptions, StateKind::Unknown),
    ] {
        assert_eq!(state(id), kind, "{id}");
    }
}

fn path_wire() {
    let frame = |name: &str| Frame::parse(&seed(&format!("path_wire/{name}"))[2..]).unwrap();
    let Frame::Request(asked) = frame("request") else {
        panic!("no request");
    };
    assert_eq!((&asked.sizes[..], asked.burst), (&[64, 1400][..], 3));
    assert!(asked.check(4096, u64::MAX).is_ok());
    let Frame::Ready(ready) = frame("ready") else {
        panic!("not ready");
    };
    assert_eq!(
        (ready.hostname.as_str(), ready.real_offset_ns),
        ("there", -5)
    );
    assert!(!ready.conditions.is_real_time() && ready.conditions.tx_stamps);
    assert!(ready.explains);
    let Frame::Delays(delays) = frame("delays") else {
        panic!("no delays");
    };
    assert_eq!((delays[0].sequence, delays[0].asleep_ns()), (77, 5_000_000));
    let reception = delays[0].reception.as_ref().unwrap();
    assert_eq!((reception.ns, delays[0].ns()), (3_000_000, 8_000_000));
    assert_eq!(reception.thread.as_ref().unwrap().task, "napi/eth0-7");
    assert!(delays[0].read_with_later && delays[0].by[0].0.task == "hog");
    assert_eq!(frame("end"), Frame::End);
    assert!(matches!(frame("report"), Frame::Report(report) if report.preemptions == 3));
    let later = Frame::Hello {
        protocol: 7,
        version: String::new(),
        nonce: [0; 32],
    };
    assert_eq!(frame("hello-of-a-later-version"), later);
    let reply = seed("path_wire/reply");
    assert_eq!(data::read_reply_head(&reply, 7).unwrap().sequence, 9);
    let earlier = data::read_stages(&reply).unwrap().earlier.unwrap();
    assert_eq!((earlier.before, earlier.count), (2, 2));
    assert_eq!(earlier.tcp.unwrap().timeout_ms, Some(204));
    let stamp = Ancillary::parse(&seed("path_wire/stamps"));
    assert_eq!(stamp.software_ns, Some(2_000_000_005));
    assert_eq!(stamp.sent.map(|sent| sent.id), Some(255));
}

fn marks() {
    let function = |name: &str| spec::PlaceKind::Function(name.to_owned());
    let of = |file: Option<&str>, kind: spec::PlaceKind| MarkPlace {
        file: file.map(str::to_owned),
        kind,
    };
    let probe = |name: &str| spec::PlaceKind::Probe {
        provider: "control".to_owned(),
        name: name.to_owned(),
    };
    let app = Some("/opt/app");
    for (name, shape) in [
        (
            "call",
            MarkShape::Call(of(Some("libm.so.6"), function("work"))),
        ),
        ("function", MarkShape::Point(of(None, function("tick")))),
        (
            "offset",
            MarkShape::Pair(
                of(app, spec::PlaceKind::Offset(0x1139)),
                of(None, spec::PlaceKind::Offset(64)),
            ),
        ),
        (
            "pair",
            MarkShape::Pair(of(None, probe("begin")), of(None, probe("end"))),
        ),
    ] {
        let text = String::from_utf8(seed(&format!("marks/{name}.txt"))).expect("text");
        assert_eq!(spec::parse(&text).map(|spec| spec.shape), Ok(shape));
    }

    let program = seed("marks/probes.elf");
    let image = Image::read(&program[..]).expect("a program");
    let mut functions: Vec<(&str, u64, u64)> = image
        .functions
        .iter()
        .map(|function| (function.name.as_str(), function.offset, function.size))
        .collect();
    functions.sort_unstable();
    assert_eq!(functions, [("_start", 0xe8, 3), ("other", 0xeb, 1)]);
    let mut probes: Vec<(&str, u64, u32)> = image
        .probes
        .iter()
        .map(|probe| (probe.name.as_str(), probe.offset, probe.semaphore))
        .collect();
    probes.sort_unstable();
    assert_eq!(probes, [("guarded", 0xe9, 0xee), ("step", 0xe8, 0)]);
}

fn record() {
    let bytes = file("crates/record/tests/data/run-2.json");
    let run = Run::parse(Path::new("run.json"), &bytes).expect("a record");
    let stated: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
    let thread = &run.threads[0].latency;
    assert_eq!(stated["threads"][0]["latency"]["count"], thread.count);
    assert_eq!((thread.count, thread.sum_ns), (200, 1_089_092));
}

fn recording() {
    let read = |name: &str| {
        let bytes = seed(&format!("recording/{name}"));
        let kind = open::RecordingKind::of_bytes(&bytes);
        let recording = Recording::read(&bytes[..]).expect("a recording");
        (kind, recording)
    };
    // `timer_latency 7832 ns` in the line of its thread.
    let (kind, timerlat) = read("rtla-timerlat.txt");
    assert_eq!(kind, Some(open::RecordingKind::Text));
    let found: Vec<(u32, u64)> = timerlat
        .wake_ups
        .iter()
        .map(|wake_up| (wake_up.thread.tid, wake_up.latency_ns()))
        .collect();
    assert_eq!(found, [(116, 7_832)]);
    // Woken in the second line and running in the fourth.
    let (_, perf) = read("perf.txt");
    let first = perf.wake_ups.iter().min_by_key(|wake_up| wake_up.woken_ns);
    let first = first.map(|wake_up| (wake_up.thread.tid, wake_up.due_ns, wake_up.woken_ns));
    assert_eq!(first, Some((18_332, 4_177_089_262_321, 4_177_089_273_046)));
    for name in ["perf.txt", "trace-cmd.txt"] {
        let (_, recording) = read(name);
        assert_eq!(
            recording.span_ns,
            span_of(&seed(&format!("recording/{name}")))
        );
    }
}

/// From the first line's time to the last's: its only word of digits, a point, 9 digits and a colon.
fn span_of(text: &[u8]) -> u64 {
    let text = std::str::from_utf8(text).expect("text");
    let time = |line: &str| {
        line.split_whitespace().find_map(|word| {
            let (seconds, ns) = word.strip_suffix(':')?.split_once('.')?;
            let seconds: u64 = seconds.parse().ok()?;
            (ns.len() == 9).then_some(())?;
            Some(seconds * 1_000_000_000 + ns.parse::<u64>().ok()?)
        })
    };
    let times: Vec<u64> = text.lines().filter_map(time).collect();
    assert_eq!(times.len(), text.lines().count());
    times[times.len() - 1] - times[0]
}

fn rootfs() {
    let unpacked = |name: &str| {
        let (mut tree, mut room) = (Tree::new(), Room::for_memory(256));
        let bytes = seed(&format!("rootfs/{name}"));
        tree.next_layer();
        archive::unpack(&bytes[..], false, &mut tree, &mut room)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        tree
    };
    let mut plain = unpacked("plain");
    // Through `bin -> usr/bin`.
    let (place, bytes, _) = plain.file("/bin/sh").expect("a shell");
    assert_eq!((place.as_str(), bytes.len()), ("usr/bin/sh", 3));
    let (place, bytes, mode) = plain.file("/a/b/c").expect("a file below folders");
    assert_eq!((place.as_str(), bytes.len(), mode), ("a/b/c", 1, 0o755));
    for name in ["long-gnu", "long-pax"] {
        let path = ["p".repeat(200), "q".repeat(200)].join("/");
        assert!(unpacked(name).file(&path).is_some(), "{name}");
    }
}

fn tracer_lines() {
    let mut lines = Lines::default();
    let mut found = Vec::new();
    lines.add_bytes(&seed("tracer_lines/one-of-each.txt"), |line| {
        found.push(line)
    });
    let expected = [
        Line::Hwlat {
            cpu: 1,
            inner_ns: 11_000,
            outer_ns: 12_000,
            at_real_ns: 1_581_527_483_343_962_693,
            count: 6,
            nmi_count: 1,
        },
        Line::Timerlat {
            cpu: 3,
            thread: true,
            latency_ns: 11_700,
        },
        Line::Osnoise {
            cpu: 0,
            runtime_us: 1_000_000,
            noise_us: 190,
            max_us: 9,
        },
    ];
    assert_eq!(found, expected);
    assert_eq!(lines.lost(), 12);
}

fn window() {
    const FILE: &str = "crates/trace/tests/data/windows/hog-0.json";
    let bytes = file(FILE);
    let window = punctual_trace::windows::parse(Path::new(FILE), 1, &bytes).expect("a window");
    let stated: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
    assert_eq!(
        Some(window.events.len()),
        stated["events"].as_array().map(Vec::len)
    );
    let bill = punctual_trace::attribute::bill(&window);
    assert_eq!(bill.latency_ns, 2_373_759_379_531 - 2_373_758_961_678);
    // `fifo99-hog` runs until 416,570 ns after the instant; the timer's interrupt takes a part of that.
    let hog = Cause::Thread {
        task: "fifo99-hog".to_owned(),
        policy: "SCHED_FIFO".to_owned(),
        priority: 99,
    };
    let hogged: u64 = bill
        .rows
        .iter()
        .filter(|row| row.cause == hog)
        .map(|row| row.ns)
        .sum();
    let most = bill.latency_ns / 2;
    assert!((most..=416_570).contains(&hogged), "{:#?}", bill.rows);
}

fn taskset() {
    use punctual_taskset::{Format, read};
    let parsed = |name: &str, format: Format| {
        let text = String::from_utf8(seed(name)).expect("text");
        read(&text, "seed", format).expect("a set").set
    };
    let toml = parsed("taskset/small.toml", Format::Toml);
    let names: Vec<&str> = toml.tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!(names, ["sensor", "control", "log"]);
    assert_eq!((toml.locks.len(), toml.chains.len()), (2, 1));
    let json = parsed("taskset/threads.json", Format::RtApp);
    assert_eq!((json.tasks.len(), json.locks.len()), (3, 1));
}
