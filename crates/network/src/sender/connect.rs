//! The connection of control, from the sender's side.
