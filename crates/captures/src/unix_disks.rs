//! How busy disks are by the `iostat -x` of Solaris, illumos and the BSDs.
//!
//! ```text
//!                  extended device statistics
//! device    r/s    w/s   kr/s   kw/s wait actv  svc_t  %w  %b
//! sd5     224.8  157.8 10701.8 6114.7  0.0  9.5   24.7   0 100
//!
//!                         extended device statistics
//! device       r/s     w/s     kr/s     kw/s  ms/r  ms/w  ms/o  ms/t qlen  %b
//! ada0          12     812      412     9123    11    81     0    80    9 100
//! ```

use std::collections::BTreeMap;

use spindoctor_model::TroubleKind;

use crate::system::{BUSY_PERCENT, MOST_WORDS, SLOW_MS, SystemText, mean, tables};

/// True for the names of its columns.
pub(crate) fn is_head(line: &str) -> bool {
    line.contains("%b") && is_list(&line.split_whitespace().take(MOST_WORDS).collect::<Vec<_>>())
}

fn is_list(words: &[&str]) -> bool {
    ["device", "r/s", "w/s", "%b"].iter().all(|name| words.contains(name))
}

/// Says which of them have no time left.
pub(crate) fn read(text: &str, found: &mut SystemText) {
    let reports = tables(text, is_list);
    // The first report is of all the time since the start.
    let reports = if reports.len() > 1 { &reports[1..] } else { &reports[..] };
    let mut disks: BTreeMap<&str, Vec<BTreeMap<&str, &str>>> = BTreeMap::new();
    for row in reports.iter().flatten() {
        if let Some(name) = row.get("device") {
            disks.entry(name).or_default().push(row.clone());
        }
    }
    for (name, rows) in disks {
        let of = |column: &str| mean(&rows, column);
        let (Some(busy), Some(reads), Some(writes)) = (of("%b"), of("r/s"), of("w/s")) else { continue };
        // Solaris with -n has the wait in the queue and that in the disk.
        let in_queue = of("wsvc_t").unwrap_or(0.0);
        let both = of("svc_t").or_else(|| of("asvc_t").map(|ms| ms + in_queue)).or_else(|| of("ms/t"));
        let Some(ms) = both.filter(|ms| busy >= BUSY_PERCENT && *ms >= SLOW_MS) else { continue };
        let amount = |column: &str, count: f64| of(column).unwrap_or(count);
        let kind = match amount("kr/s", reads) >= amount("kw/s", writes) {
            true => TroubleKind::BusyReading,
            false => TroubleKind::BusyWriting,
        };
        let sentence = format!(
            "The disk {name} is {:.0} % busy: {:.0} requests a second take {ms:.0} ms each",
            busy.min(100.0),
            reads + writes
        );
        found.add("iostat", Some(kind), sentence);
    }
}

#[cfg(test)]
mod tests {
    use crate::{recognise, system};

    #[test]
    fn a_disk_of_solaris_and_of_the_bsds_that_has_no_time_left_is_said() {
        let solaris = "             extended device statistics                 \ndevice    r/s    w/s   kr/s   kw/s wait actv  svc_t  %w  %b \n\
                       sd5     220.0  160.0 10701.8 6114.7  0.0  9.5   24.0   0 100 \nsd5     240.0  110.0 11565.3 4065.0  0.0  9.7   28.0   0 100 \n\
                       sd1       1.0    2.0    11.0    4.0  0.0  0.0    1.0   0   1 \n";
        let named = "    r/s    w/s   kr/s   kw/s wait actv wsvc_t asvc_t  %w  %b device\n  220.0  145.0  101.8 6114.7  4.0  9.5   11.0   15.0  70 100 c1t0d0\n";
        let bsd = "device       r/s     w/s     kr/s     kw/s  ms/r  ms/w  ms/o  ms/t qlen  %b\n\
                   ada0          12     353      412     9123    11    27     0    26    9 100\n";
        for (text, disk) in [(solaris, "sd5"), (named, "c1t0d0"), (bsd, "ada0")] {
            let parts = recognise("x", &format!("This is what it says:\n\n{text}"));
            let says: Vec<&String> = parts.iter().flat_map(|part| &part.says).collect();
            assert_eq!(
                says,
                [&format!("The disk {disk} is 100 % busy: 365 requests a second take 26 ms each")],
                "{text}"
            );
        }
        let quick = bsd.replace("    26    9 100", "     1    9 100");
        assert_eq!(system::read(&quick).says, Vec::<String>::new());
    }
}
