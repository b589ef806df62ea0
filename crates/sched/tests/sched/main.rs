//! Bounds of response times, compared with the simulator, with other implementations, and with what
//! papers have published. One program: it is linked once, and nothing here has state of the process.

mod admission;
mod chains;
mod edf;
mod hostile;
mod offsets;
mod oracle;
mod property;
mod published;
mod server;
mod shortcuts;
mod simso;
mod support;
mod tight;
