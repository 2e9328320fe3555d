//! Who reads and writes disks, by what `iotop` prints.
//!
//! ```text
//! Total DISK READ:       102.00 M/s | Total DISK WRITE:         7.66 K/s
//!     TID  PRIO  USER     DISK READ  DISK WRITE  SWAPIN     IO>    COMMAND
//! 2417346 be/4 mysql       34.01 M/s    0.00 B/s  0.00 % 71.31 % mysqld --daemonize
//!     411 be/3 root         0.00 B/s   12.00 K/s  0.00 % 99.12 % [jbd2/sda1-8]
//! ```

use std::collections::BTreeMap;

use spindoctor_model::number;

use crate::amounts::{amount, bytes};
use crate::system::{MOST_ROWS, MOST_WORDS, SystemText};

/// Programs that are named.
const MOST: usize = 3;
/// What uses a disk less is not named, bytes a second. By judgement.
const LEAST_BYTES_PER_S: f64 = 65_536.0;
/// Threads that wait for disks so much of the time are worth words, percent. By judgement.
const WAITS_PERCENT: f64 = 50.0;

/// What the threads of one program do together.
#[derive(Debug, Clone, Copy, Default)]
struct Use {
    read_bytes_per_s: f64,
    written_bytes_per_s: f64,
    /// Of the thread that waits most.
    waits_percent: f64,
    threads: u64,
}

/// True for the names of its columns, and for the sums above them.
pub(crate) fn is_head(line: &str) -> bool {
    line.contains("DISK READ") && line.contains("DISK WRITE")
}

/// Says who uses the disks, by the last screen.
pub(crate) fn read(text: &str, found: &mut SystemText) {
    if !text.lines().any(|line| is_head(line) || is_row(line)) {
        return;
    }
    let mut programs: BTreeMap<&str, Use> = BTreeMap::new();
    for line in text.lines().rev().take_while(|line| !is_head(line)).take(MOST_ROWS) {
        let Some((program, of_thread)) = row(line) else { continue };
        let of_program = programs.entry(program).or_default();
        of_program.read_bytes_per_s += of_thread.read_bytes_per_s;
        of_program.written_bytes_per_s += of_thread.written_bytes_per_s;
        of_program.waits_percent = of_program.waits_percent.max(of_thread.waits_percent);
        of_program.threads += 1;
    }
    let all = |of: &Use| of.read_bytes_per_s + of.written_bytes_per_s;
    let mut programs: Vec<(&str, Use)> = programs.into_iter().collect();
    programs.sort_by(|(_, one), (_, other)| all(other).total_cmp(&all(one)));
    let is_named = |(_, of): &&(&str, Use)| all(of) >= LEAST_BYTES_PER_S || of.waits_percent >= WAITS_PERCENT;
    let named: Vec<String> =
        programs.iter().filter(is_named).take(MOST).map(|(name, of)| words(name, of)).collect();
    if !named.is_empty() {
        found.add("iotop", None, format!("Disks are used by {}", named.join(", ")));
    }
    let journal =
        programs.iter().find(|(name, of)| name.starts_with("jbd2/") && of.waits_percent >= WAITS_PERCENT);
    if let Some((name, _)) = journal {
        let sentence =
            format!("{name} writes the journal of a file system: who syncs a file there waits for it");
        found.add("iotop", None, sentence);
    }
}

fn words(name: &str, of: &Use) -> String {
    let waits = match of.waits_percent >= WAITS_PERCENT {
        true => format!(", up to {:.0} % of the time in waits", of.waits_percent),
        false => String::new(),
    };
    format!(
        "{name} ({}: {}/s read, {}/s written{waits})",
        number::counted(of.threads, "thread", "threads"),
        number::bytes(of.read_bytes_per_s),
        number::bytes(of.written_bytes_per_s)
    )
}

/// True for a row of its list, which may stand without its head.
pub(crate) fn is_row(line: &str) -> bool {
    [" be/", " rt/", " idle "].iter().any(|class| line.contains(class)) && row(line).is_some()
}

/// An amount a second, and the words behind it: `34.01 M/s`, `34.01M/s`, `5.0 MB/s`, `120.00 K` where somebody left the second out.
fn rate<'t, 'w>(words: &'w [&'t str]) -> Option<(f64, &'w [&'t str])> {
    let (first, behind) = words.split_first()?;
    let digits = first.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let (unit, behind) = match &first[digits..] {
        "" => behind.split_first().map(|(unit, behind)| (*unit, behind))?,
        unit => (unit, behind),
    };
    let unit = unit.strip_suffix("/s").unwrap_or(unit);
    let unit = unit.strip_suffix('B').filter(|power| !power.is_empty()).unwrap_or(unit);
    Some((bytes(&format!("{} {unit}", &first[..digits]))?, behind))
}

/// The program of a row, and what its thread does. In a script it may be a comment.
fn row(line: &str) -> Option<(&str, Use)> {
    let line = line.trim_start().trim_start_matches('#');
    let words: Vec<&str> = line.split_whitespace().take(MOST_WORDS).collect();
    let [id, class, _, rest @ ..] = words.as_slice() else { return None };
    id.parse::<u64>().ok().filter(|_| class.contains('/') || *class == "idle")?;
    let (read_bytes_per_s, rest) = rate(rest)?;
    let (written_bytes_per_s, rest) = rate(rest)?;
    // `?unavailable?` stands for the two shares where the kernel does not count waits.
    let is_share = |word: &&str| word.ends_with('%') || word.ends_with("unavailable?");
    let last = rest.iter().rposition(is_share);
    let share = |at: usize| match rest[at].strip_suffix('%')? {
        "" => amount(rest.get(at.checked_sub(1)?)?),
        digits => amount(digits),
    };
    let program = rest.get(last.map_or(0, |at| at + 1))?;
    let program = match program.strip_prefix('[') {
        Some(of_kernel) => of_kernel.trim_end_matches(']'),
        None => program.rsplit('/').next().unwrap_or(program),
    };
    let of_thread = Use {
        read_bytes_per_s,
        written_bytes_per_s,
        waits_percent: last.and_then(share).unwrap_or(0.0),
        threads: 1,
    };
    Some((program, of_thread))
}

#[cfg(test)]
mod tests {
    use crate::{recognise, system};

    const SCREEN: &str = "Total DISK READ:        96.00 M/s | Total DISK WRITE:        12.10 M/s\n    \
                          TID  PRIO  USER     DISK READ  DISK WRITE  SWAPIN     IO>    COMMAND\n   \
                          2411 be/4 mysql      64.00 M/s    0.00 B/s  0.00 % 71.31 % mysqld --daemonize\n   \
                          2412 be/4 mysql      32.00 M/s  100.00 K/s  0.00 % 12.97 % mysqld --daemonize\n    \
                          411 be/3 root        0.00 B/s   12.00 K/s  0.00 % 99.12 % [jbd2/sdb1-8]\n   \
                          9912 be/4 root        0.00 B/s   12.00 M/s  0.00 %  9.00 % /usr/bin/xz -T0 a.sql\n     \
                          77 be/4 root        0.00 B/s    3.00 K/s  0.00 %  0.00 % rsyslogd -n\n";

    #[test]
    fn who_uses_the_disks_is_said_by_the_last_screen() {
        let says = [
            "Disks are used by mysqld (2 threads: 96 MiB/s read, 100 KiB/s written, up to 71 % of the time in waits), xz (1 \
             thread: 0 B/s read, 12 MiB/s written), jbd2/sdb1-8 (1 thread: 0 B/s read, 12 KiB/s written, up to 99 % of the time \
             in waits)",
            "jbd2/sdb1-8 writes the journal of a file system: who syncs a file there waits for it",
        ];
        assert_eq!(system::read(SCREEN).says, says);
        let before = SCREEN.replace("2411", "811").replace("mysqld", "java");
        assert_eq!(system::read(&format!("{before}{SCREEN}")).says, says);
        let parts = recognise("x", &format!("the disk is busy all the time\n\n{SCREEN}"));
        assert!(parts.iter().any(|part| part.says.len() == 2), "{parts:?}");
    }

    #[test]
    fn without_shares_of_the_time_programs_are_still_named() {
        let text = "    TID  PRIO  USER     DISK READ DISK WRITE>    COMMAND\n   \
                    2411 be/4 mysql       0.00 B/s    8.00 M/s ?unavailable?  mariadbd\n";
        assert_eq!(
            system::read(text).says,
            ["Disks are used by mariadbd (1 thread: 0 B/s read, 8 MiB/s written)"]
        );
        assert_eq!(system::read(&text.replace("8.00 M/s", "8.00 K/s")).says, Vec::<String>::new());
    }

    #[test]
    fn rows_alone_and_in_a_comment_are_read_in_every_unit() {
        for (text, wanted) in [
            (
                " 7227 be/4 www-data    0.00 B/s    0.00 B/s  0.00 % 96.71 % php-fpm: pool www\n \
                 7897 be/4 mysql       2.50 M/s   10.00 K/s  8.23 % 27.75 % mysqld --daemonize\n",
                "Disks are used by mysqld (1 thread: 2.5 MiB/s read, 10 KiB/s written), php-fpm: (1 thread: 0 B/s read, 0 B/s written, up to 97 % of the time in waits)",
            ),
            (
                "# Output shows:\n# TID  PRIO  USER     DISK READ  DISK WRITE  SWAPIN     IO    COMMAND\n\
                 # 1234  be/4 mysql        0.00 B  15360.00 K  0.00 %  50.00 % mysqld\n",
                "Disks are used by mysqld (1 thread: 0 B/s read, 15 MiB/s written, up to 50 % of the time in waits)",
            ),
            (
                "# 1234  be/4 mysql  45.2M/s   12.0MB/s      0.0%   99% mysqld\n",
                "Disks are used by mysqld (1 thread: 45.2 MiB/s read, 12 MiB/s written, up to 99 % of the time in waits)",
            ),
        ] {
            let parts = recognise("x", &format!("This is what iotop says:\n\n{text}"));
            let says: Vec<&String> = parts.iter().flat_map(|part| &part.says).collect();
            assert_eq!(says, [wanted], "{text}");
        }
        let healthy = " 9735 be/4 mysql       0.00 B/s    9.00 K/s  0.00 %  0.00 % mysqld --basedir=/usr\n";
        assert_eq!(system::read(healthy).says, Vec::<String>::new());
    }
}
