//! Colours: one set for light and one for dark backgrounds, as CSS variables.
//!
//! The series colours follow Okabe and Ito's colour-blind-safe set, darkened or
//! lightened so that each keeps a contrast of 3:1 against its background; the
//! text colours keep 4.5:1. Nothing is told by colour alone.

/// How many series have a colour of their own.
pub const SERIES: usize = 8;

/// The class that gives the series `index` its colour; after [`SERIES`] the
/// colours come again, dashed.
#[must_use]
pub fn series_class(index: usize) -> String {
    let dashed = if (index / SERIES).is_multiple_of(2) {
        ""
    } else {
        " dash"
    };
    format!("s{}{dashed}", index % SERIES)
}

/// CSS variables for a light background.
pub const LIGHT: &str = "--bg:#fff;--panel:#f6f7f9;--ink:#1b1f24;--soft:#545d68;--grid:#e4e7eb;--rule:#c9ced6;\
--line:#24303d;--band:#dbe4ee;--alert:#b3132f;--late:#fbe9eb;--void:#eceef1;\
--pass:#136c2e;--fail:#b3132f;--inconclusive:#855600;--invalid:#6b3aa8;\
--s0:#0072b2;--s1:#d55e00;--s2:#00835f;--s3:#a8438f;--s4:#8a6d00;--s5:#3b8ec7;--s6:#802a55;--s7:#646c76;";

/// CSS variables for a dark background.
pub const DARK: &str = "--bg:#12161b;--panel:#1a2027;--ink:#e7ebf0;--soft:#a3adb9;--grid:#262d36;--rule:#3b4450;\
--line:#e7ebf0;--band:#2a3846;--alert:#ff7d8c;--late:#331c22;--void:#20262e;\
--pass:#56c271;--fail:#ff7d8c;--inconclusive:#e5b547;--invalid:#c29bff;\
--s0:#58b4f0;--s1:#ff9559;--s2:#33cba1;--s3:#e583cb;--s4:#dec04b;--s5:#a5d6ff;--s6:#ea7ba4;--s7:#b4bcc6;";

/// The rules that the pictures use, on top of the variables.
pub const CHART_RULES: &str = "\
svg.chart{font-family:system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif;font-size:12px;font-variant-numeric:tabular-nums}
svg.chart text{fill:var(--soft)}
svg.chart text.strong{fill:var(--ink);font-weight:600}
svg.chart text.ink{fill:var(--ink)}
svg.chart text.alert{fill:var(--alert)}
svg.chart text.halo{paint-order:stroke;stroke:var(--bg);stroke-width:4px;stroke-linejoin:round}
.grid{stroke:var(--grid);stroke-width:1}
.minor{stroke:var(--grid);stroke-width:1;opacity:.55}
.rule{stroke:var(--rule);stroke-width:1}
.deadline{stroke:var(--alert);stroke-width:1.2;stroke-dasharray:5 3}
.late{fill:var(--late)}
.void{fill:var(--void)}
.area{fill:var(--band);opacity:.6}
.dot.hollow{fill:var(--bg);stroke:var(--line);stroke-width:1.6}
.band{fill:var(--band)}
.merged{fill:none;stroke:var(--line);stroke-width:1.8;stroke-linejoin:round}
.series{fill:none;stroke-width:1.4;stroke-linejoin:round}
.key{stroke-width:2.5}
.key.merged{stroke:var(--line)}
.key.bandkey{stroke:var(--band);stroke-width:10}
.thin{stroke-width:1}
.faint{stroke-width:1;stroke-dasharray:2 2;opacity:.75}
.dash{stroke-dasharray:4 2}
.dot{fill:var(--line)}
.miss{stroke:var(--alert);stroke-width:1.4}
.missdot{fill:var(--alert)}
.leader{stroke:var(--soft);stroke-width:.8;fill:none}
.cell{fill:none}
.lane{fill:var(--s0)}
.heat{fill:var(--s0)}
.ring{stroke:var(--bg);stroke-width:1}
.ridge{stroke:var(--s0);stroke-width:1;fill:var(--s0);fill-opacity:.55}
.ridge.r1{stroke:var(--s2);fill:var(--s2)}
.hit .strip{fill:transparent}
.hit .cross{stroke:var(--soft);stroke-width:1}
.hit .tip{fill:var(--panel);stroke:var(--rule)}
.hit .cross,.hit .tip,.hit text{visibility:hidden;pointer-events:none}
.hit:hover .cross,.hit:hover .tip,.hit:hover text{visibility:visible}
.span .bar{fill:var(--void);stroke:var(--rule);stroke-width:.8}
.span.way .bar{fill:var(--s1);fill-opacity:.35;stroke:var(--s1)}
.span.probe .bar{fill:var(--s2);fill-opacity:.3;stroke:var(--s2)}
.run .bar{fill-opacity:.45;stroke-width:.8}
.span.blocked .bar{fill:var(--late);stroke:var(--alert)}
.span.irq .bar{fill:var(--line);stroke:none}
.span.soft .bar{fill:var(--soft);stroke:none}
.span.host .bar{fill:var(--void);stroke:var(--invalid)}
.hatch{stroke:var(--soft);stroke-width:1.2}
.bound{stroke:var(--invalid);stroke-width:1.4;stroke-dasharray:2 2}
svg.chart text.bound{fill:var(--invalid);stroke:none}
";

/// The rules that give each series its colour.
#[must_use]
pub fn series_rules() -> String {
    use std::fmt::Write as _;
    let mut out = String::new();
    for i in 0..SERIES {
        let _ = writeln!(
            out,
            ".series.s{i},.key.s{i}{{stroke:var(--s{i})}}.dot.s{i}{{fill:var(--s{i})}}svg.chart text.s{i}{{fill:var(--s{i})}}.run.s{i} .bar{{fill:var(--s{i});stroke:var(--s{i})}}"
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn colours(set: &str) -> Vec<(&str, [f64; 3])> {
        set.split(';')
            .filter_map(|pair| pair.split_once(":#"))
            .map(|(name, hex)| {
                let wide: String = if hex.len() == 3 {
                    hex.chars().flat_map(|c| [c, c]).collect()
                } else {
                    hex.into()
                };
                let channel = |i: usize| {
                    let v =
                        f64::from(u8::from_str_radix(&wide[2 * i..2 * i + 2], 16).unwrap()) / 255.0;
                    if v <= 0.040_45 {
                        v / 12.92
                    } else {
                        ((v + 0.055) / 1.055).powf(2.4)
                    }
                };
                (name, [channel(0), channel(1), channel(2)])
            })
            .collect()
    }

    fn contrast(a: [f64; 3], b: [f64; 3]) -> f64 {
        let light = |c: [f64; 3]| 0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2];
        let (a, b) = (light(a) + 0.05, light(b) + 0.05);
        a.max(b) / a.min(b)
    }

    #[test]
    fn every_colour_can_be_read_on_its_background() {
        for set in [LIGHT, DARK] {
            let all = colours(set);
            let get = |name: &str| all.iter().find(|c| c.0 == name).expect(name).1;
            for background in ["--bg", "--panel", "--late", "--void"] {
                for text in [
                    "--ink",
                    "--soft",
                    "--alert",
                    "--pass",
                    "--fail",
                    "--inconclusive",
                    "--invalid",
                ] {
                    let c = contrast(get(text), get(background));
                    assert!(c >= 4.5, "{text} on {background}: {c:.2}");
                }
                for i in 0..SERIES {
                    let name = format!("--s{i}");
                    let c = contrast(get(&name), get(background));
                    assert!(c >= 3.0, "{name} on {background}: {c:.2}");
                }
            }
        }
    }

    #[test]
    fn colours_come_again_dashed() {
        assert_eq!(series_class(0), "s0");
        assert_eq!(series_class(8), "s0 dash");
    }
}
