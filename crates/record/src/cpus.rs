//! CPU numbers as people and the kernel write them.

/// Writes a list of CPUs the kernel's way: `0-3,8`; `none` for no CPU. They may
/// come in any order.
#[must_use]
pub fn cpu_list(cpus: &[usize]) -> String {
    let mut sorted = cpus.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let runs: Vec<String> = sorted
        // Sorted and without twins, so the difference can't overflow.
        .chunk_by(|one, next| next - one == 1)
        .map(|run| match run {
            [first, .., last] => format!("{first}-{last}"),
            [single] => single.to_string(),
            [] => String::new(),
        })
        .collect();
    if runs.is_empty() {
        "none".to_owned()
    } else {
        runs.join(",")
    }
}

/// Writes the mask of CPUs the kernel's way, in groups of 32 bits: `0,2-3` is `d`, CPU 32 is
/// `1,00000000`.
#[must_use]
pub fn cpu_mask(cpus: &[usize]) -> String {
    // Further than any kernel goes; the record may say anything.
    const MOST: usize = 1 << 13;
    let highest = cpus
        .iter()
        .copied()
        .filter(|cpu| *cpu < MOST)
        .max()
        .unwrap_or(0);
    let groups: Vec<String> = (0..=highest / 32)
        .rev()
        .map(|group| {
            let of_group = cpus.iter().filter(|cpu| **cpu / 32 == group);
            let bits = of_group.fold(0u32, |bits, cpu| bits | 1 << (cpu % 32));
            format!("{bits:08x}")
        })
        .collect();
    let text = groups.join(",");
    let text = text.trim_start_matches('0');
    if text.is_empty() {
        "0".to_owned()
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_joined_and_order_does_not_matter() {
        assert_eq!(cpu_list(&[]), "none");
        assert_eq!(cpu_list(&[3, 1, 2, 7, 2]), "1-3,7");
        assert_eq!(cpu_list(&[usize::MAX, 0]), format!("0,{}", usize::MAX));
    }

    #[test]
    fn masks_are_as_the_kernel_reads_them() {
        assert_eq!(cpu_mask(&[0]), "1");
        assert_eq!(cpu_mask(&[0, 2, 3]), "d");
        assert_eq!(cpu_mask(&[31]), "80000000");
        assert_eq!(cpu_mask(&[32]), "1,00000000");
        assert_eq!(cpu_mask(&[]), "0");
        assert_eq!(cpu_mask(&[usize::MAX]), "0");
    }
}
