//! What a reader sees under the pointer: a line through the place and its figures. Style
//! sheets alone show it, so that it needs no script.

use super::Form;
use crate::draw::svg::Svg;
use crate::draw::{Frame, text};

/// Size of the letters.
const SIZE: f64 = 12.0;

/// How many places a picture tells apart.
pub(super) fn most(form: Form) -> usize {
    match form {
        Form::Wide | Form::File => 120,
        Form::Narrow => 60,
    }
}

/// A strip of the picture from `left` to `right`, and what is said of it. Strips come last,
/// above everything else.
pub(super) fn strip(svg: &mut Svg, frame: &Frame, (left, right): (f64, f64), says: &str) {
    let (left, right) = (left.max(frame.left), right.min(frame.right));
    if right <= left || says.is_empty() {
        return;
    }
    let at = (left + right) / 2.0;
    let width = text::width(says, SIZE) + 12.0;
    let behind = at + 8.0 + width <= frame.right;
    let box_left = if behind { at + 8.0 } else { at - 8.0 - width };
    // A picture on a telephone is narrower than what is said.
    let box_left = box_left.min(frame.right - width).max(2.0);
    svg.group("hit");
    svg.rectangle("strip", left, frame.top, right - left, frame.height());
    svg.line("cross", (at, frame.top), (at, frame.bottom));
    svg.rectangle("tip", box_left, frame.top + 4.0, width, 20.0);
    svg.label("ink", "start", box_left + 6.0, frame.top + 18.0, says);
    svg.close("g");
}
