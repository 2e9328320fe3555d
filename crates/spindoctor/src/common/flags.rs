//! The flags and forms of value that several commands have.

use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use regex::Regex;
use spindoctor_collect::mysql::{Secret, SslMode};
use spindoctor_export::TABLES;
use spindoctor_page::formats::Format;

/// How to reach the server: the flags of any MySQL client.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Connection")]
pub struct Connection {
    /// The server as mysql://user@host:port/ or as a DSN: h=db17,P=3306,u=app
    #[arg(help_heading = None)]
    pub target: Option<Secret>,

    /// Host name or address; localhost means the socket
    #[arg(short = 'h', long, value_name = "HOST")]
    pub host: Option<String>,

    /// TCP port
    #[arg(short = 'P', long, value_name = "PORT", value_parser = whole::<u16>(0, u16::MAX))]
    pub port: Option<u16>,

    /// Unix socket
    #[arg(short = 'S', long, value_name = "FILE")]
    pub socket: Option<PathBuf>,

    #[command(flatten)]
    pub login: Login,

    /// How long a login may take [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub connect_timeout: Option<Duration>,

    /// How long a query may take [default: 2s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub query_timeout: Option<Duration>,

    /// The server's process on this host, where it is not found from the connection
    #[arg(long, value_name = "PID", value_parser = whole::<u32>(0, u32::MAX), conflicts_with = "remote")]
    pub pid: Option<u32>,

    /// Read nothing of this host: the server runs elsewhere
    #[arg(long)]
    pub remote: bool,
}

/// How to log in, wherever the server is.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Connection")]
pub struct Login {
    /// User name
    #[arg(short = 'u', long, value_name = "NAME")]
    pub user: Option<String>,

    /// Password, right behind -p; -p alone asks. Safer: an option file or a login path
    #[arg(short = 'p', long, value_name = "PASSWORD", num_args = 0..=1, require_equals = true)]
    #[expect(clippy::option_option, reason = "clap's form of an option that may stand without its value")]
    pub password: Option<Option<Secret>>,

    /// Read this option file only
    #[arg(long, value_name = "FILE")]
    pub defaults_file: Option<PathBuf>,

    /// Read this option file after the global ones
    #[arg(long, value_name = "FILE")]
    pub defaults_extra_file: Option<PathBuf>,

    /// Read the option groups client and spindoctor with this suffix, too
    #[arg(long, value_name = "SUFFIX")]
    pub defaults_group_suffix: Option<String>,

    /// Read no option file but the login path file
    #[arg(long)]
    pub no_defaults: bool,

    /// Read this group of the login path file
    #[arg(long, value_name = "NAME")]
    pub login_path: Option<String>,

    /// DISABLED, PREFERRED, REQUIRED, VERIFY_CA or VERIFY_IDENTITY
    #[arg(long, value_name = "MODE")]
    pub ssl_mode: Option<SslMode>,

    /// Certificates that sign the server's
    #[arg(long, value_name = "FILE")]
    pub ssl_ca: Option<PathBuf>,

    /// Our certificate
    #[arg(long, value_name = "FILE")]
    pub ssl_cert: Option<PathBuf>,

    /// The key of our certificate
    #[arg(long, value_name = "FILE")]
    pub ssl_key: Option<PathBuf>,

    /// Without TLS, encrypt the password with this public key of the server's
    #[arg(long, value_name = "FILE")]
    pub server_public_key_path: Option<PathBuf>,

    /// Without TLS, encrypt the password with the key that the server sends, without verifying the server
    #[arg(long)]
    pub get_server_public_key: bool,

    /// Send the password over TLS even where the certificate is not verified
    #[arg(long)]
    pub trust_unverified_server: bool,
}

/// The names of all formats of a list.
pub fn format_names<R>(formats: &'static [Format<R>]) -> PossibleValuesParser {
    PossibleValuesParser::new(formats.iter().map(|format| PossibleValue::new(format.name).help(format.help)))
}

/// The names of the tables that a recording is exported as.
pub fn table_names() -> PossibleValuesParser {
    PossibleValuesParser::new(TABLES.iter().map(|table| PossibleValue::new(table.name).help(table.help)))
}

/// One value of a list: its name, what help says of it, and what it stands for.
pub fn one_of<T: Copy + Send + Sync + 'static>(
    choices: &'static [(&'static str, &'static str, T)],
) -> impl TypedValueParser<Value = T> {
    let names = choices.iter().map(|(name, help, _)| PossibleValue::new(*name).help(*help));
    PossibleValuesParser::new(names).try_map(|given| {
        let found = choices.iter().find(|(name, ..)| *name == given);
        found.map(|(.., value)| *value).ok_or_else(|| format!("{given} is none of them"))
    })
}

/// A whole number in a range; what is not one is answered with the range.
pub fn whole<T>(least: T, most: T) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: Copy + Display + FromStr + PartialOrd + Send + Sync + 'static,
{
    move |text: &str| {
        let number = text.parse::<T>().ok().filter(|number| (least..=most).contains(number));
        number.ok_or_else(|| format!("write a whole number from {least} to {most}"))
    }
}

/// A number and one of these units, in seconds; no unit where `""` is one. `units_text` lists them for people.
pub fn seconds(text: &str, units: &[(&str, f64)], units_text: &str) -> Result<f64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = &text[digits.len()..];
    let (_, seconds) = units
        .iter()
        .find(|(name, _)| *name == unit)
        .ok_or_else(|| format!("{unit:?} is not a unit of time; use {units_text}"))?;
    let number: f64 = digits.trim().parse().map_err(|_| format!("{digits:?} is not a number"))?;
    Ok(number * seconds)
}

/// `10s`, `500ms`, `2m`, `1h`, or seconds without a unit.
pub fn duration(text: &str) -> Result<Duration, String> {
    const UNITS: &[(&str, f64)] =
        &[("ms", 0.001), ("", 1.0), ("s", 1.0), ("m", 60.0), ("min", 60.0), ("h", 3_600.0)];
    let seconds = seconds(text, UNITS, "ms, s, m or h")?;
    if !(0.1..=3_600.0).contains(&seconds) {
        return Err("it must be between 100ms and 1h".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// A part in percent: `10%`, `2.5`.
pub fn part(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end();
    let percent: f64 = number.parse().map_err(|_| format!("{text:?} is not a percentage"))?;
    match (0.1..=100.0).contains(&percent) {
        true => Ok(percent / 100.0),
        false => Err("it must be between 0.1% and 100%".to_owned()),
    }
}

/// A rate, times a second, at most 1,000: a profile of every thread costs more than it shows above that.
pub fn hz(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(hz) if (0.1..=1_000.0).contains(&hz) => Ok(hz),
        _ => Err("a rate from 0.1 to 1000 a second is wanted".to_owned()),
    }
}

/// A regular expression; of what is wrong with it, the line that says it.
pub fn pattern(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|error| error.to_string().lines().last().unwrap_or_default().to_owned())
}

/// A number of CPUs that a quota can grant.
pub fn cpus(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(cpus) if (0.01..=1_024.0).contains(&cpus) => Ok(cpus),
        _ => Err("a number of CPUs from 0.01 to 1024 is wanted".to_owned()),
    }
}

/// `500M`, `1G`, in powers of 1,024: a MiB or more.
pub fn size(text: &str) -> Result<u64, String> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let bytes_per_unit = match unit.trim_start().trim_end_matches(['i', 'B', 'b']) {
        "k" | "K" => 1_u64 << 10,
        "m" | "M" => 1 << 20,
        "g" | "G" => 1 << 30,
        "t" | "T" => 1 << 40,
        unit => return Err(format!("{unit:?} is not a unit of size; use M, G or T")),
    };
    let digits = &text[..text.len() - unit.len()];
    let number: f64 = digits.parse().map_err(|_| format!("{digits:?} is not a number"))?;
    let bytes = number * bytes_per_unit as f64;
    if !(1_048_576.0..=1e15).contains(&bytes) {
        return Err("it must be at least 1M".to_owned());
    }
    Ok(bytes as u64)
}
