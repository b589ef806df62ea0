//! Marks: their syntax, and the places of a program's file. A place that is found must be
//! within the file, otherwise the kernel would put a probe elsewhere.

use punctual_trace::watch::marks::image::Image;
use punctual_trace::watch::marks::spec;

pub fn check(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Ok(mark) = spec::parse(text)
    {
        assert!(!mark.name.is_empty() && text.contains(&mark.text));
        let again = spec::parse(&format!("{}={}", "again", mark.text)).expect("what was read");
        assert_eq!(again.shape, mark.shape);
    }
    let Ok(image) = Image::read(bytes) else {
        return;
    };
    let functions = image.functions.iter().map(|function| function.offset);
    let probes = image.probes.iter().map(|probe| probe.offset);
    for offset in functions.chain(probes) {
        assert!(image.is_code(offset) && offset < bytes.len() as u64);
    }
    for probe in &image.probes {
        assert!(u64::from(probe.semaphore) < bytes.len() as u64);
    }
}
