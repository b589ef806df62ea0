//! What the firmware says of the machine.

use crate::root::Reader;
use punctual_record::system::Hardware;

const DMI: &str = "/sys/class/dmi/id";
/// What boards say whose vendor didn't fill in a field.
const PLACEHOLDERS: &[&str] = &[
    "default string",
    "system manufacturer",
    "system product name",
    "system version",
    "not specified",
    "none",
    "n/a",
    "unknown",
];

pub(super) fn read(reader: &mut Reader<'_>) -> Option<Hardware> {
    let mut field = |name: &str| {
        let text = reader.optional(&format!("{DMI}/{name}"))?;
        let text = text.trim().trim_end_matches('\0');
        let lower = text.to_lowercase();
        let filler = lower.starts_with("to be filled") || PLACEHOLDERS.contains(&&*lower);
        (!text.is_empty() && !filler).then(|| text.to_owned())
    };
    let pair = |first: Option<String>, second: Option<String>| match (first, second) {
        (Some(first), Some(second)) => Some(format!("{first} {second}")),
        (one, other) => one.or(other),
    };
    let mut model = pair(field("sys_vendor"), field("product_name"));
    if model.is_none() {
        model = pair(field("board_vendor"), field("board_name"));
    }
    let bios = pair(field("bios_version"), field("bios_date"));
    let model = model.or_else(|| {
        let text = reader.optional("/proc/device-tree/model")?;
        let text = text.trim_matches(['\0', ' ', '\n']);
        (!text.is_empty()).then(|| text.to_owned())
    });
    (model.is_some() || bios.is_some()).then(|| Hardware {
        model: model.unwrap_or_default(),
        bios,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::root::Root;

    fn read_in(files: &[(&str, &str)]) -> Option<Hardware> {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
            fs::write(path, text).unwrap();
        }
        let root = Root::recorded(folder.path());
        read(&mut Reader::new(&root))
    }

    #[test]
    fn a_pc_has_vendor_product_and_bios() {
        let found = read_in(&[
            ("sys/class/dmi/id/sys_vendor", "LENOVO\n"),
            ("sys/class/dmi/id/product_name", "30E0CTO1WW\n"),
            ("sys/class/dmi/id/bios_version", "S0EKT2EA\n"),
            ("sys/class/dmi/id/bios_date", "03/14/2024\n"),
        ]);
        assert_eq!(
            found,
            Some(Hardware {
                model: "LENOVO 30E0CTO1WW".to_owned(),
                bios: Some("S0EKT2EA 03/14/2024".to_owned()),
            })
        );
    }

    #[test]
    fn a_board_whose_vendor_filled_in_nothing_is_named_by_its_board() {
        let found = read_in(&[
            ("sys/class/dmi/id/sys_vendor", "To Be Filled By O.E.M.\n"),
            ("sys/class/dmi/id/product_name", "System Product Name\n"),
            ("sys/class/dmi/id/board_vendor", "ASRock\n"),
            ("sys/class/dmi/id/board_name", "X300M-STX\n"),
        ]);
        let model = found.map(|it| (it.model, it.bios));
        assert_eq!(model, Some(("ASRock X300M-STX".to_owned(), None)));
    }

    #[test]
    fn a_raspberry_pi_has_its_model_in_the_device_tree_and_others_have_nothing() {
        let model = "Raspberry Pi 5 Model B Rev 1.0\0";
        let found = read_in(&[("proc/device-tree/model", model)]);
        let found = found.map(|it| (it.model, it.bios));
        let model = model.trim_end_matches('\0').to_owned();
        assert_eq!(found, Some((model, None)));
        assert_eq!(read_in(&[]), None);
    }
}
