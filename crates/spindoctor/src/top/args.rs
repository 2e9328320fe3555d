//! The flags of `spindoctor top`.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::screen::Screen;
use crate::common::flags::{Connection, duration, whole};

/// `spindoctor top`.
#[derive(Debug, Args)]
#[command(after_help = "Keys: ? shows them. It reads and changes nothing. Times are UTC.")]
pub struct Top {
    /// Look at a recording or a bundle instead of a server: at any second of it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["target", "pid", "remote"])]
    pub replay: Option<PathBuf>,

    /// Begin at this time of the recording (UTC): 14:03:20, '2026-11-22 14:03', or -5m from its end
    #[arg(long, value_name = "TIME", requires = "replay", allow_hyphen_values = true)]
    pub at: Option<String>,

    /// Begin at this event of the recording
    #[arg(long, value_name = "NUMBER", value_parser = whole::<u64>(0, u64::MAX), requires = "replay", conflicts_with = "at")]
    pub event: Option<u64>,

    /// Begin with this screen
    #[arg(long, value_name = "NAME", default_value = "overview")]
    pub screen: Screen,

    /// Print one screen as text and end: for scripts and bug reports
    #[arg(long)]
    pub once: bool,

    /// With --once, how long to look at a live server
    #[arg(long, hide_short_help = true, value_name = "TIME", default_value = "5s", value_parser = duration, requires = "once", conflicts_with = "replay")]
    pub duration: Duration,

    /// With --once, how large the screen is [default: as the terminal, else 80x24]
    #[arg(long, hide_short_help = true, value_name = "COLUMNSxROWS", value_parser = size, requires = "once")]
    pub size: Option<(u16, u16)>,

    #[command(flatten)]
    pub connection: Connection,
}

/// Columns that a screen may have.
pub const COLUMNS: RangeInclusive<u16> = 40..=1_000;
/// Rows that it may have.
pub const ROWS: RangeInclusive<u16> = 8..=1_000;

/// `200x50`. No window of a terminal is larger than the largest here.
fn size(text: &str) -> Result<(u16, u16), String> {
    let parsed = text.split_once('x').and_then(|(columns, rows)| {
        let size: (u16, u16) = (columns.trim().parse().ok()?, rows.trim().parse().ok()?);
        (COLUMNS.contains(&size.0) && ROWS.contains(&size.1)).then_some(size)
    });
    parsed.ok_or_else(|| "columns and rows are wanted, from 40x8 to 1000x1000: 200x50".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_columns_and_rows() {
        assert_eq!(size("200x50"), Ok((200, 50)));
        for wrong in ["", "200", "x", "39x24", "80x7", "80x-1", "1001x50"] {
            assert!(size(wrong).unwrap_err().contains("200x50"), "{wrong}");
        }
    }
}
