//! Masks of CPUs as the kernel prints them: 32 bits in hexadecimal, separated by commas.

/// The most CPUs of a mask.
const MOST: usize = punctual_rt::affinity::MAX_CPUS;

/// The CPUs of a mask.
pub(crate) fn parse(text: &str) -> Option<Vec<usize>> {
    let text = text.trim();
    if text.is_empty() || text.len() > MOST {
        return None;
    }
    let mut cpus = Vec::new();
    for (word, digits) in text.rsplit(',').enumerate() {
        let bits = u32::from_str_radix(digits, 16).ok()?;
        if digits.starts_with('+') {
            return None;
        }
        cpus.extend(
            (0..32)
                .filter(|bit| bits >> bit & 1 == 1)
                .map(|bit| word * 32 + bit),
        );
    }
    Some(cpus)
}

/// Those of `cpus` that `others` lacks.
pub(crate) fn lacking(cpus: &[usize], others: &[usize]) -> Vec<usize> {
    let lacking = cpus.iter().filter(|cpu| !others.contains(cpu));
    lacking.copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_is_read_as_the_kernel_prints_it() {
        assert_eq!(parse("3\n"), Some(vec![0, 1]));
        assert_eq!(parse("00000001,80000000"), Some(vec![31, 32]));
        for text in ["", "x", "+3", "1,", "123456789", "0x3"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_mask_that_was_printed_is_read_back() {
        for cpus in [vec![], vec![0], vec![31, 32], vec![1, 64, 95]] {
            assert_eq!(parse(&punctual_record::cpu_mask(&cpus)), Some(cpus));
        }
        assert_eq!(punctual_record::cpu_mask(&[0, 33]), "2,00000001");
    }
}
