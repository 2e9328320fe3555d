//! A recording as other programs read it: tables in Parquet and CSV, flat or in a dated layout; and the recorder's numbers
//! for Prometheus and OpenTelemetry.
//!
//! [`table`] names each table once, with its columns; [`rows`] says how rows follow from what was recorded; Parquet and CSV are sinks
//! of rows. [`hosts`] reads one of the tables back, of all servers of a folder. [`metrics`] makes one list of families, which [`prometheus`] and [`otlp`] render. Nothing here knows a command.

#![allow(unreachable_pub, reason = "what others may use, this file says")]

mod csv;
mod dated;
mod file;
pub mod hosts;
pub mod metrics;
pub mod otlp;
pub mod parquet;
mod part;
pub mod prometheus;
pub mod rows;
pub mod serve;
mod slice;
pub mod table;
mod values;

#[cfg(test)]
mod examples;

pub use dated::Dated;
pub use file::{FileFormat, Whole, Writing};
pub use part::{Part, Touching, write};
pub use slice::{More, Position};
pub use table::{Cell, Kind, Sink, TABLES, Table};
