//! Who reads and writes by `pidstat -d`, how much is swapped by `sar -W`, and how many tasks wait for a disk by `sar -q`.
//!
//! ```text
//! 10:11:12      UID       PID   kB_rd/s   kB_wr/s kB_ccwr/s iodelay  Command
//! 10:11:13      112      2211  81223.00  12112.00      0.00     412  mysqld
//!
//! 10:11:12  pswpin/s pswpout/s
//! 10:11:22    812.00   1211.00
//!
//! 10:11:12   runq-sz  plist-sz   ldavg-1   ldavg-5  ldavg-15   blocked
//! 10:11:22         4      2305      6.41      6.98      7.12         8
//! ```

use std::collections::BTreeMap;

use spindoctor_model::{TroubleKind, number as shown};

use crate::system::{BLOCKED, MOST_WORDS, SWAPS_IN_KIB_PER_S, SystemText, mean, number, tables};

/// Programs that are named.
const MOST: usize = 3;
/// What uses a disk less is not named, KiB/s. By judgement, as of iotop.
const LEAST_KIB_PER_S: f64 = 64.0;
/// A page, KiB: of x86-64, and of most systems on aarch64.
const PAGE_KIB: f64 = 4.0;

/// True for the names of the columns of any of them.
pub(crate) fn is_head(line: &str) -> bool {
    let is_likely = ["kB_rd/s", "pswpin/s", "runq-sz"].iter().any(|name| line.contains(name));
    if !is_likely {
        return false;
    }
    let words: Vec<&str> = line.split_whitespace().take(MOST_WORDS).collect();
    is_of_users(&words) || is_of_swap(&words) || is_of_queue(&words)
}

fn is_of_users(words: &[&str]) -> bool {
    ["PID", "kB_rd/s", "kB_wr/s", "Command"].iter().all(|name| words.contains(name))
}

fn is_of_swap(words: &[&str]) -> bool {
    words.contains(&"pswpin/s") && words.contains(&"pswpout/s")
}

fn is_of_queue(words: &[&str]) -> bool {
    words.contains(&"runq-sz") && words.contains(&"blocked")
}

/// Says what they show that costs time.
pub(crate) fn read(text: &str, found: &mut SystemText) {
    users(text, found);
    let rows: Vec<BTreeMap<&str, &str>> = tables(text, is_of_swap).into_iter().flatten().collect();
    let of = |name| mean(&rows, name).unwrap_or(0.0) * PAGE_KIB;
    let (read_in, written_out) = (of("pswpin/s"), of("pswpout/s"));
    if read_in >= SWAPS_IN_KIB_PER_S {
        let sentence = format!("The host swaps: {read_in:.0} KiB/s in, {written_out:.0} KiB/s out");
        found.add("sar", Some(TroubleKind::Swapping), sentence);
    }
    let rows: Vec<BTreeMap<&str, &str>> = tables(text, is_of_queue).into_iter().flatten().collect();
    if let Some(blocked) = mean(&rows, "blocked").filter(|blocked| *blocked >= BLOCKED) {
        found.add("sar", None, format!("{blocked:.0} threads wait for a disk"));
    }
}

/// The programs of the last report.
fn users(text: &str, found: &mut SystemText) {
    let Some(rows) = tables(text, is_of_users).pop() else { return };
    let mut programs: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for row in &rows {
        let amounts = number(row, "kB_rd/s").zip(number(row, "kB_wr/s"));
        let (Some((read, written)), Some(name)) = (amounts, row.get("Command")) else { continue };
        let all = programs.entry(name).or_default();
        *all = (all.0 + read, all.1 + written);
    }
    let mut programs: Vec<_> = programs.into_iter().collect();
    programs.retain(|(_, (read, written))| read + written >= LEAST_KIB_PER_S);
    programs.sort_by(|(_, one), (_, other)| (other.0 + other.1).total_cmp(&(one.0 + one.1)));
    let bytes = |kib: f64| shown::bytes(kib * 1_024.0);
    let named: Vec<String> = programs
        .iter()
        .take(MOST)
        .map(|(name, (read, written))| {
            format!("{name} ({}/s read, {}/s written)", bytes(*read), bytes(*written))
        })
        .collect();
    if !named.is_empty() {
        found.add("pidstat", None, format!("Disks are used by {}", named.join(", ")));
    }
}

#[cfg(test)]
mod tests {
    use crate::{recognise, system};

    #[test]
    fn who_uses_disks_what_is_swapped_and_what_waits_is_said() {
        for (text, wanted) in [
            (
                "10:11:12 AM   UID       PID   kB_rd/s   kB_wr/s kB_ccwr/s iodelay  Command\n\
                 10:11:13 AM   112      2211  10240.00   2048.00      0.00     412  mysqld\n\
                 10:11:13 AM     0       411      0.00     12.00      0.00      99  jbd2/sda1-8\n",
                "Disks are used by mysqld (10 MiB/s read, 2 MiB/s written)",
            ),
            (
                "10:11:12 AM pswpin/s pswpout/s\n10:11:22 AM   812.00   1211.00\n10:11:32 AM   812.00   1211.00\n",
                "The host swaps: 3248 KiB/s in, 4844 KiB/s out",
            ),
            (
                "02:51:18 PM runq-sz plist-sz ldavg-1 ldavg-5 ldavg-15 blocked\n02:51:19 PM 4 2305 6.41 6.98 7.12 6\n\
                 02:51:20 PM 2 2301 6.41 6.98 7.12 8\n",
                "7 threads wait for a disk",
            ),
        ] {
            let parts =
                recognise("x", &format!("Linux 5.15.0 (db1)  03/04/24  _x86_64_  (16 CPU)\n\n{text}"));
            let says: Vec<&String> = parts.iter().flat_map(|part| &part.says).collect();
            assert_eq!(says, [wanted], "{text}");
        }
        let quiet = "10:11:12 pswpin/s pswpout/s\n10:11:22     0.00     11.00\n\n10:11:12 runq-sz plist-sz blocked\n10:11:22 1 2 0\n";
        assert_eq!(system::read(quiet).says, Vec::<String>::new());
    }
}
