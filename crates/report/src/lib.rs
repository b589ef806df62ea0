//! Pure: a record goes in, text comes out. Nothing here reads a clock, a file
//! or the machine, and nothing prints.
//!
//! [`terminal`] writes the summary, [`live`] what is seen while a run goes,
//! [`html`] the page, [`svg`] the pictures as files, [`gnuplot`] a script with
//! its data. They share the figures ([`figures`]), the sentences
//! ([`statements`]) and the pictures ([`chart`]), so that no two of them can
//! say different things.

#![forbid(unsafe_code)]

pub mod budget;
pub mod chart;
pub mod compare;
pub mod conditions;
pub mod cost;
pub mod draw;
pub mod exec;
pub mod experiment;
pub mod explain;
pub mod figures;
pub mod findings;
pub mod fit;
pub mod fleet;
pub mod formats;
pub mod gnuplot;
pub mod html;
pub mod interference;
pub mod known;
pub mod lab;
pub mod ladder;
pub mod live;
pub mod marks;
mod path;
pub mod persistent;
pub mod placement;
pub mod proposals;
pub mod refusal;
pub mod statements;
pub mod style;
pub mod summary_json;
pub mod svg;
pub mod table;
pub mod terminal;
pub mod terms;
mod tuned;
pub mod tuning;
pub mod verdict;
pub mod view;
mod watch;
pub mod words;

/// Conditions, events and ends of a run in words.
pub mod facts;
