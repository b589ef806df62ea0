//! Task sets as files: what is read, refused, and analysed. One program: it is linked once, and
//! nothing here has state of the process.

mod analysis;
mod examples;
mod hostile;
mod oracle;
mod proved;
mod rtapp;
mod toml;
