//! The flags of `spindoctor bundle`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

use crate::common::flags::{Connection, whole};
use crate::common::moment::Moment;

/// `spindoctor bundle`.
#[derive(Debug, Args)]
#[command(override_usage = "spindoctor bundle <FILE> -o <FILE> --around <EVENT>|--last <TIME>")]
#[command(group(ArgGroup::new("part").required(true).multiple(true).args(["around", "last", "from", "to"])))]
pub struct Bundle {
    /// A recording, as `spindoctor record` makes it, or a bundle; it may still be written
    pub file: PathBuf,

    /// The file to write: NAME.tar.gz, or NAME.tar; an earlier bundle of that name is replaced
    #[arg(short = 'o', long, value_name = "FILE")]
    pub out: PathBuf,

    /// Pack this event, by its number: from five minutes before it to two after it
    #[arg(long, value_name = "EVENT", value_parser = whole::<u64>(0, u64::MAX), conflicts_with_all = ["last", "from", "to"])]
    pub around: Option<u64>,

    /// Pack so much of the end: 10m, 2h
    #[arg(long, value_name = "TIME", value_parser = last, conflicts_with_all = ["from", "to"])]
    pub last: Option<Moment>,

    /// Pack from this time on: 2026-07-01T09:30:00Z, '2026-07-01 09:30' (UTC), 09:30, -10m
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub from: Option<Moment>,

    /// Pack up to this time [default: the end]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub to: Option<Moment>,

    /// Keep the literals of statements that the recording or the server has, and defaults and comments of tables
    #[arg(long, hide_short_help = true, overrides_with = "no_literals")]
    pub literals: bool,

    /// Take the literals of statements and tables out: the default
    #[arg(long)]
    pub no_literals: bool,

    #[command(flatten)]
    pub connection: Connection,
}

impl Bundle {
    /// True where a server is named that is to be asked, too: by a flag, or by a configuration file.
    pub fn has_server(&self) -> bool {
        let Connection { target, host, port, socket, login, .. } = &self.connection;
        target.is_some()
            || host.is_some()
            || port.is_some()
            || socket.is_some()
            || login.user.is_some()
            || login.login_path.is_some()
            || login.defaults_file.is_some()
            || login.defaults_extra_file.is_some()
            || login.defaults_group_suffix.is_some()
    }
}

/// `10m` as what is written `-10m` elsewhere.
fn last(text: &str) -> Result<Moment, String> {
    match format!("-{}", text.trim()).parse()? {
        moment @ Moment::BeforeEnd(_) => Ok(moment),
        _ => Err("a length is wanted: 90s, 10m, 2h".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_last_part_is_a_length() {
        assert_eq!(last("10m"), Ok(Moment::BeforeEnd(Duration::from_secs(600))));
        for wrong in ["-10m", "10", "", "09:30", "soon"] {
            assert!(last(wrong).is_err(), "{wrong}");
        }
    }
}
