//! The container image: by the rules of OCI's image format, and in containers.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Command;

use flate2::read::GzDecoder;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::common::needs::{self, Absent};
use crate::common::{Place, need, read_json, skip};
use crate::made::{by, image, only};
use crate::support::{runs, succeeds};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// The files of an archive, by path.
fn files(archive: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in tar::Archive::new(archive).entries().expect("an archive") {
        let mut entry = entry.expect("an entry");
        let header = entry.header();
        assert_eq!((header.uid().ok(), header.gid().ok()), (Some(0), Some(0)));
        assert!(header.username().expect("a name").is_none_or(str::is_empty));
        let path = entry.path().expect("a path").display().to_string();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).expect("its content");
        assert!(files.insert(path, content).is_none(), "twice");
    }
    files
}

fn digest(bytes: &[u8]) -> String {
    let sum = Sha256::digest(bytes);
    sum.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The blob that a descriptor names, which has its type, size and digest.
fn blob<'f>(files: &'f BTreeMap<String, Vec<u8>>, descriptor: &Value, kind: &str) -> &'f [u8] {
    assert_eq!(descriptor["mediaType"], kind);
    let named = descriptor["digest"].as_str().expect("a digest");
    let name = named.strip_prefix("sha256:").expect("SHA-256");
    let blob = &files[&format!("blobs/sha256/{name}")];
    assert_eq!(descriptor["size"], blob.len(), "{descriptor}");
    assert_eq!(digest(blob), name);
    blob
}

fn json_of(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).expect("JSON")
}

#[test]
fn the_image_keeps_the_rules_of_its_format() {
    let files = files(&fs::read(image()).expect("an image"));
    let layout = json_of(&files["oci-layout"]);
    assert_eq!(layout, json!({ "imageLayoutVersion": "1.0.0" }));
    let index = json_of(&files["index.json"]);
    assert_eq!(index["schemaVersion"], 2);
    assert_eq!(
        index["mediaType"],
        "application/vnd.oci.image.index.v1+json"
    );
    let entry = &index["manifests"][0];
    let tag = &entry["annotations"]["org.opencontainers.image.ref.name"];
    let tag = tag.as_str().expect("a tag");
    assert!(tag.starts_with(env!("CARGO_PKG_VERSION")), "{tag}");
    let of_tags = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    assert!(tag.len() <= 128 && tag.chars().all(of_tags), "{tag}");

    let manifest = json_of(blob(&files, entry, MANIFEST));
    assert_eq!(manifest["schemaVersion"], 2);
    assert_eq!(manifest["mediaType"], MANIFEST);
    let config = json_of(blob(&files, &manifest["config"], CONFIG));
    for part in ["architecture", "os", "variant"] {
        assert_eq!(config[part], entry["platform"][part], "{part}");
    }
    assert_eq!(config["os"], "linux");
    let layers = manifest["layers"].as_array().expect("layers");
    let ids = config["rootfs"]["diff_ids"].as_array().expect("ids");
    assert_eq!(config["rootfs"]["type"], "layers");
    assert_eq!((layers.len(), ids.len()), (1, 1));
    let mut layer = Vec::new();
    GzDecoder::new(blob(&files, &layers[0], LAYER))
        .read_to_end(&mut layer)
        .expect("gzip");
    assert_eq!(ids[0], format!("sha256:{}", digest(&layer)));
    // Two files of the layout, two folders, three blobs.
    assert_eq!(files.len(), 7, "{:?}", files.keys());

    let content = self::files(&layer);
    let built = fs::read(image().with_file_name("punctual")).expect("a program");
    assert!(content["usr/bin/punctual"] == built);
    assert_eq!(config["config"]["Entrypoint"][0], "/usr/bin/punctual");
    for path in ["copyright", "LICENSE-APACHE"] {
        assert!(!content[&format!("usr/share/doc/punctual/{path}")].is_empty());
    }
}

#[test]
fn the_same_binary_makes_the_same_image() {
    let zone = [("TZ", Path::new("Pacific/Auckland"))];
    let again = only(&by("image", "image again", &zone), "punctual-", ".oci.tar");
    assert!(fs::read(image()).expect("an image") == fs::read(again).expect("an image"));
}

#[test]
fn skopeo_reads_the_image() {
    need!(needs::program("skopeo"));
    let place = Place::new();
    let source = format!("oci-archive:{}", image().display());
    let output = runs(Command::new("skopeo").args(["inspect", &source]));
    let said = json_of(&output.stdout);
    let version = &said["Labels"]["org.opencontainers.image.version"];
    let version = version.as_str().expect("a version");
    assert!(version.starts_with(env!("CARGO_PKG_VERSION")), "{said}");
    // It compares each digest with its blob as it copies.
    let copy = format!("dir:{}", place.path().join("copy").display());
    runs(Command::new("skopeo").args(["copy", "--quiet", "--insecure-policy", &source, &copy]));
}

/// A container with what a measurement needs, in namespaces of its own.
#[test]
fn the_image_measures_in_a_container() {
    need!(needs::program("umoci"));
    need!(needs::program("runc"));
    need!(needs::root());
    let place = Place::new();
    let layout = place.path().join("layout");
    fs::create_dir(&layout).expect("a folder");
    succeeds(
        Command::new("tar")
            .arg("-xf")
            .arg(image())
            .arg("-C")
            .arg(&layout),
    );
    let index = read_json(&layout.join("index.json"));
    let tag = &index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"];
    let bundle = place.path().join("bundle");
    runs(
        Command::new("umoci")
            .args(["unpack", "--image"])
            .arg(format!(
                "{}:{}",
                layout.display(),
                tag.as_str().expect("a tag")
            ))
            .arg(&bundle),
    );
    let run = |arguments: &[&str]| {
        let mut config = read_json(&bundle.join("config.json"));
        let process = &mut config["process"];
        process["terminal"] = false.into();
        // After the entry point, as an engine does.
        assert_eq!(process["args"], json!(["/usr/bin/punctual"]));
        process["args"] = [&["/usr/bin/punctual"], arguments].concat().into();
        let held = json!(["CAP_SYS_NICE", "CAP_IPC_LOCK"]);
        process["capabilities"] = json!({ "bounding": held, "effective": held, "permitted": held });
        fs::write(bundle.join("with.json"), config.to_string()).expect("written");
        let name = format!("punctual-test-{}", std::process::id());
        let original = fs::read(bundle.join("config.json")).expect("its configuration");
        fs::rename(bundle.join("with.json"), bundle.join("config.json")).expect("renamed");
        let state = place.path().join("state");
        let mut runc = Command::new("runc");
        runc.arg("--root").arg(&state).args(["run", "--bundle"]);
        let ended = crate::support::ends(runc.arg(&bundle).arg(&name));
        fs::write(bundle.join("config.json"), original).expect("written");
        ended
    };
    let version = run(&["--version"]);
    let errors = String::from_utf8_lossy(&version.stderr).into_owned();
    if !version.status.success() && errors.contains("runc") {
        skip!(Absent::refused("runc", errors));
    }
    let said = String::from_utf8_lossy(&version.stdout).into_owned();
    assert_eq!(
        said.trim(),
        concat!("punctual ", env!("CARGO_PKG_VERSION")),
        "{errors}"
    );
    let ended = run(&["measure", "-D", "1", "--best-effort", "-o", "run"]);
    assert!(
        ended.status.code().is_some_and(|code| code != 1),
        "{ended:?}"
    );
    let record = read_json(&bundle.join("rootfs/work/run/run.json"));
    assert!(record.is_object());
}
