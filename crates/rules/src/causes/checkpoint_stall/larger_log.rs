//! How large a redo log is advised, and how this server gets it.

use spindoctor_model::number::bytes;
use spindoctor_model::{Remedy, Window};

/// Room for that long is asked for: bursts and the nightly batch even out over an hour.
const ROOM_FOR_S: f64 = 3600.0;

/// More redo than this is never asked for: recovery after a crash has to read it.
const MOST_BYTES: f64 = 64.0 * GIB;

/// Where the buffer pool is known, no more is asked for than it holds, and this: what is in the log is of pages that are dirty
/// in the pool (an estimate: a page that is changed often has more redo than its size).
const LEAST_BOUND_BYTES: f64 = GIB;

/// Share of the free disk that a larger log may take: the rest is for data.
const SHARE_OF_DISK: f64 = 0.5;

const GIB: f64 = 1024.0 * 1024.0 * 1024.0;
const MIB: f64 = 1024.0 * 1024.0;

/// A log with room for an hour of writing, as far as the buffer pool and the disk allow it.
pub(super) fn larger_log(window: &Window, per_s: f64) -> Remedy {
    let version = window.server.version;
    let is = |mysql: bool, at_least: (u16, u16, u16)| {
        let (major, minor, patch) = at_least;
        version.is_some_and(|v| match mysql {
            true => v.mysql_at_least(major, minor, patch),
            false => v.mariadb_at_least(major, minor, patch),
        })
    };
    let (variable, dynamic) = if is(true, (8, 0, 30)) {
        ("innodb_redo_log_capacity", true)
    } else {
        ("innodb_log_file_size", is(false, (10, 9, 0)))
    };
    let now = window.variable_number(variable).unwrap_or(0.0);
    let files = if variable == "innodb_log_file_size" {
        window.variable_number("innodb_log_files_in_group").unwrap_or(1.0).max(1.0)
    } else {
        1.0
    };
    // At least four times as much, or the next window looks the same; rounded up to whole gigabytes.
    let pool = window.variable_number("innodb_buffer_pool_size");
    let bound = pool.map_or(MOST_BYTES, |pool| pool.clamp(LEAST_BOUND_BYTES, MOST_BYTES)) / files;
    let wanted = (per_s * ROOM_FOR_S / files).min(bound).max((4.0 * now).min(MOST_BYTES));
    let rounded =
        if wanted >= GIB { (wanted / GIB).ceil() * GIB } else { (wanted / (64.0 * MIB)).ceil() * 64.0 * MIB };
    let room = window.latest(|s| &s.host.data_directory).map_or(f64::INFINITY, |d| d.free_bytes as f64);
    let most = now + SHARE_OF_DISK * room / files;
    let rounded =
        if rounded > most { ((most / (64.0 * MIB)).floor() * 64.0 * MIB).max(now) } else { rounded };
    let setting = format!("{variable} = {rounded:.0}");
    Remedy {
        statement: if dynamic {
            format!("SET GLOBAL {setting}")
        } else {
            format!("Set {setting} in the option file, and restart the server cleanly")
        },
        why: format!(
            "{} hold {} of this writing; flushing evens out.",
            bytes(rounded * files),
            match rounded * files / per_s.max(1.0) {
                long if long >= 5400.0 => format!("{:.0} hours", long / 3600.0),
                short => format!("{:.0} minutes", short / 60.0),
            }
        ),
        dynamic,
        risk: format!("Takes {} of disk, and recovery after a crash takes longer.", bytes(rounded * files)),
        undo: if dynamic {
            format!("SET GLOBAL {variable} = {now:.0}")
        } else {
            format!("{variable} = {now:.0}")
        },
    }
}
