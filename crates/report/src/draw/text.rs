//! Widths of text, near enough to keep labels apart, and labels pushed apart.

/// The width of a text in pixels at a font size: a little generous, since the
/// reader's font is not known.
#[must_use]
pub fn width(text: &str, size: f64) -> f64 {
    text.chars()
        .map(|c| match c {
            'i' | 'l' | 'j' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' => 0.32,
            ' ' | 't' | 'f' | 'r' | '(' | ')' | '-' => 0.4,
            'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.95,
            c if c.is_uppercase() => 0.7,
            _ => 0.62,
        })
        .sum::<f64>()
        * size
}

/// Shortens a text to at most `most` characters, with an ellipsis.
#[must_use]
pub fn shorten(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(most.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// Moves label positions apart so that each is at least `gap` from the next,
/// keeping their order and staying within `low..high` where that is possible.
/// Takes and returns positions in the order given.
#[must_use]
pub fn spread(wanted: &[f64], gap: f64, low: f64, high: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|&a, &b| wanted[a].total_cmp(&wanted[b]));
    let mut placed = vec![0.0; wanted.len()];
    let mut floor = low;
    for &i in &order {
        placed[i] = wanted[i].clamp(low, high.max(low)).max(floor);
        floor = placed[i] + gap;
    }
    // What ran over the end is pushed back, from the last one.
    let mut ceiling = high;
    for &i in order.iter().rev() {
        placed[i] = placed[i].min(ceiling);
        ceiling = placed[i] - gap;
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_keep_their_order_and_distance() {
        let placed = spread(&[50.0, 50.0, 10.0, 99.0], 12.0, 0.0, 100.0);
        assert_eq!(placed, [50.0, 62.0, 10.0, 99.0]);
        let crowded = spread(&[99.0, 99.0, 99.0], 12.0, 0.0, 100.0);
        assert_eq!(crowded, [76.0, 88.0, 100.0]);
    }

    #[test]
    fn a_long_name_is_shortened_by_characters() {
        assert_eq!(shorten("ünïcode", 4), "ünï…");
        assert_eq!(shorten("short", 5), "short");
    }
}
