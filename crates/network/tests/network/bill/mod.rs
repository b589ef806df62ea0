//! The bill of a late message, on exchanges made by hand.

mod causes;
mod kept;
mod made;
mod properties;
