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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_joined_and_order_does_not_matter() {
        assert_eq!(cpu_list(&[]), "none");
        assert_eq!(cpu_list(&[3, 1, 2, 7, 2]), "1-3,7");
        assert_eq!(cpu_list(&[usize::MAX, 0]), format!("0,{}", usize::MAX));
    }
}
