//! The observer: its bills are exact, name who it was, and the guest doesn't notice.

use super::common::{Place, read_json, skip};
use super::{lab, ready};

/// The functions of a cell's worst wake-up, most first, with their instructions.
fn rows(cell: &serde_json::Value) -> Vec<(String, u64)> {
    let rows = cell["bills"][0]["rows"].as_array().expect("rows");
    rows.iter()
        .map(|row| {
            let name = row["function"].as_str().expect("a name");
            let instructions = row["instructions"].as_u64().expect("a number");
            (name.to_owned(), instructions)
        })
        .collect()
}

#[test]
fn bills_are_exact_and_the_guest_is_as_it_is_without() {
    if let Err(reason) = ready() {
        skip!("{reason}");
    }
    let place = Place::new();
    let words = |folder: &'static str, explain: &'static str| {
        let kernels = ["--kernel", "standard", "--load", "poll,exit", "-o", folder];
        let work = [explain, "--", "measure", "-l", "150"];
        [&kernels[..], &work[..]].concat()
    };
    let shown = lab(&place, &words("with", "--explain")).expect(0).stdout;
    let bare = lab(&place, &words("without", "--no-explain"))
        .expect(0)
        .stdout;
    assert!(!bare.contains("most of it in"), "{bare}");
    let with = read_json(&place.path().join("with/lab.json"));
    let without = read_json(&place.path().join("without/lab.json"));

    // The whole path of a poll that is in the kernel, and of the memory that an exit frees.
    let paths: [(&str, &[&str]); 2] = [
        (
            "poll",
            &["do_sys_poll", "__fget_light", "pipe_poll", "__fdget"],
        ),
        (
            "exit",
            &[
                "free", "page", "zap", "unmap", "lru", "tlb", "memcg", "cgroup", "list", "uncharge",
            ],
        ),
    ];
    for (index, (load, path)) in paths.iter().enumerate() {
        let cell = &with["cells"][index];
        assert_eq!(cell["load"], *load);
        let hash = |record: &serde_json::Value| {
            record["cells"][index]["laboratory"]["fingerprint"]["result_sha256"].clone()
        };
        assert!(hash(&with).is_string());
        assert_eq!(hash(&with), hash(&without), "{load}: to the byte");
        assert_eq!(cell["no_bill"], serde_json::Value::Null, "{shown}");

        let max = cell["figures"]["max_ns"].as_u64().expect("a maximum");
        assert_eq!(cell["bills"][0]["total_ns"], max, "of the worst");
        for bill in cell["bills"].as_array().expect("bills") {
            let all = bill["rows"].as_array().expect("rows");
            let sum: u64 = all
                .iter()
                .map(|row| row["instructions"].as_u64().expect("a number"))
                .sum();
            assert_eq!(bill["total_ns"], sum, "the rows sum to the latency");
        }
        let rows = rows(cell);
        assert!(
            rows.iter().all(|(name, _)| name != "(not kept)"),
            "{rows:?}"
        );
        let on_path: u64 = rows
            .iter()
            .filter(|(name, _)| path.iter().any(|part| name.contains(part)))
            .map(|(_, instructions)| instructions)
            .sum();
        assert!(on_path > max / 2, "{load}: {rows:?}");
        let (first, _) = &rows[0];
        assert!(
            path.iter().any(|part| first.contains(part)),
            "{load}: {rows:?}"
        );
        assert!(shown.contains(&format!("{first} ")), "{first}: {shown}");
    }
}
