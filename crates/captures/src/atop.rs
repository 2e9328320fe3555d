//! What `atop` and `htop` show: the disks and CPUs of the one, and who uses the CPUs of the other. Their memory is read with that of `top`.
//!
//! ```text
//! ATOP - db1             2024/03/12  10:11:12             -----------------              10s elapsed
//! CPU | sys      31% | user    311% | irq       2% | idle      2%  | wait     54% | ipc     0.61 |
//! DSK |          sda | busy    101% | read    8123 | write    412 | MBr/s   12.1 | avio 11.8 ms |
//!
//!   1  [||||||||||||||||||||100.0%]   Tasks: 61, 184 thr; 5 running
//!   Mem[||||||||||||||||7.41G/7.76G]   Uptime: 31 days, 04:11:52
//!     PID USER      PRI  NI  VIRT   RES   SHR S CPU% MEM%   TIME+  Command
//!    2211 mysql      20   0 9871M 6512M  8120 S 187. 81.9 912h11:02 /usr/sbin/mysqld
//! ```

use spindoctor_model::TroubleKind;

use crate::amounts::amount;
use crate::system::{
    BUSY_PERCENT, IDLE_PERCENT, MOST_ROWS, MOST_WORDS, SLOW_MS, SystemText, WHOLE_PERCENT, tables,
};

/// Time in which CPUs do nothing because threads wait for a disk, from which on that is worth a sentence, percent of one. By judgement.
const WAIT_PERCENT: f64 = 50.0;

/// True for the head of `atop`, a meter of `htop`, and the names of its columns.
pub(crate) fn is_head(line: &str) -> bool {
    line.starts_with("ATOP - ") || meter(line).is_some() || line.contains("CPU%") && is_of_htop(line)
}

fn is_of_htop(line: &str) -> bool {
    ["PID", "USER", "CPU%", "MEM%"].iter().all(|name| line.split_whitespace().any(|word| word == *name))
}

/// What a meter of `htop` shows, behind its name: `Mem[||||||7.41G/7.76G]`.
pub(crate) fn meter(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = line.trim_start().split_once("[|")?;
    let (bars, _) = rest.split_once(']')?;
    let value = bars.trim_start_matches(['|', '#', '*', '@', ' ']).trim();
    let is_name = name.len() <= 4 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == ' ');
    (is_name && value.starts_with(|c: char| c.is_ascii_digit())).then_some((name.trim(), value))
}

/// The value of a cell of a line of `atop`, by its name: `busy    101%`. Of several words the last is the unit.
pub(crate) fn value<'t>(line: &'t str, name: &str) -> Option<&'t str> {
    line.split('|').take(MOST_WORDS).find_map(|cell| {
        let mut words = cell.split_whitespace();
        (words.next()? == name).then(|| words.next()).flatten()
    })
}

/// True for a line of `atop` with this label.
pub(crate) fn is_labelled(line: &str, label: &str) -> bool {
    line.trim_start().strip_prefix(label).is_some_and(|rest| rest.trim_start().starts_with('|'))
}

/// Says what they show that costs time.
pub(crate) fn read(text: &str, found: &mut SystemText) {
    if text.lines().any(|line| line.starts_with("ATOP - ")) {
        of_atop(text, found);
    }
    of_htop(text, found);
}

fn percent(line: &str, name: &str) -> Option<f64> {
    amount(value(line, name)?.trim_end_matches('%'))
}

/// The last screen of `atop`.
fn of_atop(text: &str, found: &mut SystemText) {
    let lines: Vec<&str> = text.lines().take(MOST_ROWS).collect();
    let begin = lines.iter().rposition(|line| line.starts_with("ATOP - ")).unwrap_or(0);
    for line in &lines[begin..] {
        if is_labelled(line, "CPU") {
            if let Some(waits) = percent(line, "wait").filter(|waits| *waits >= WAIT_PERCENT) {
                let sentence = format!(
                    "CPUs do nothing because threads wait for a disk: {:.1} of them together",
                    waits / 100.0
                );
                found.add("atop", None, sentence);
            }
        } else if is_labelled(line, "DSK") {
            disk(line, found);
        }
    }
}

/// `DSK |          sda | busy    101% | read    8123 | write    412 | avio 11.8 ms |`
fn disk(line: &str, found: &mut SystemText) {
    let name = line.split('|').nth(1).unwrap_or_default().trim();
    let milliseconds = |line: &str| {
        let cell = line.split('|').find(|cell| cell.trim_start().starts_with("avio"))?;
        let mut words = cell.split_whitespace().skip(1);
        let (number, unit) = (amount(words.next()?)?, words.next()?);
        match unit {
            "ms" => Some(number),
            "us" => Some(number / 1_000.0),
            "s" => Some(number * 1_000.0),
            _ => None,
        }
    };
    let (Some(busy), Some(ms)) = (percent(line, "busy"), milliseconds(line)) else { return };
    if busy < BUSY_PERCENT || ms < SLOW_MS || name.is_empty() {
        return;
    }
    let of = |name| percent(line, name).unwrap_or(0.0);
    let (kind, most) = match of("read") >= of("write") {
        true => (TroubleKind::BusyReading, "reads"),
        false => (TroubleKind::BusyWriting, "writes"),
    };
    let busy = busy.min(100.0);
    let sentence = format!(
        "The disk {name} is {busy:.0} % busy, most of the requests are {most}, and each takes {ms:.0} ms"
    );
    found.add("atop", Some(kind), sentence);
}

/// The process of a server that uses most. `htop` shows its threads below it, which are in its number.
fn of_htop(text: &str, found: &mut SystemText) {
    let is_head = |words: &[&str]| {
        words.first() == Some(&"PID") && words.contains(&"CPU%") && words.contains(&"Command")
    };
    let Some(rows) = tables(text, is_head).pop() else { return };
    let is_server = |name: &str| ["mysqld", "mariadbd"].contains(&name.rsplit('/').next().unwrap_or(name));
    let used = rows.iter().filter(|row| row.get("Command").is_some_and(|name| is_server(name)));
    let used = used.filter_map(|row| amount(row.get("CPU%")?)).reduce(f64::max);
    let Some(percent) = used.filter(|percent| *percent >= WHOLE_PERCENT) else { return };
    let sentence = format!("The server uses {:.1} CPUs", percent / 100.0);
    let each = used_of_each(text);
    let idle = 100.0 - each.iter().sum::<f64>() / each.len().max(1) as f64;
    // Where it has less than half of them another program has more.
    let are_full = !each.is_empty() && idle <= IDLE_PERCENT && percent >= 50.0 * each.len() as f64;
    match are_full {
        true => {
            let sentence = format!("{sentence}, and {idle:.1} % of the CPUs are idle");
            found.add("htop", Some(TroubleKind::CpusFull), sentence);
        }
        false => found.add("htop", None, sentence),
    }
}

/// The part of each CPU that is in use, percent, by the meters: `  1  [||||||||98.7%]   2  [|      3.1%]`.
fn used_of_each(text: &str) -> Vec<f64> {
    let used = |meter: &str| {
        let (name, bars) = meter.rsplit_once('[')?;
        let is_number = name.split_whitespace().last()?.bytes().all(|byte| byte.is_ascii_digit());
        let percent = bars.trim_start_matches(['|', '#', '*', '@', ' ']).strip_suffix('%')?;
        amount(percent).filter(|_| is_number)
    };
    text.lines().take(MOST_ROWS).flat_map(|line| line.split(']')).filter_map(used).collect()
}

#[cfg(test)]
mod tests {
    use crate::{recognise, system};

    fn says(text: &str) -> Vec<String> {
        recognise("x", text).into_iter().flat_map(|part| part.says).collect()
    }

    const ATOP: &str = "ATOP - db1             2024/03/12  10:11:12             -----------------              10s elapsed\n\
                        PRC | sys    3.11s | user  31.07s | #proc    211 | #trun      9 | #tslpi   612 | #zombie    0 |\n\
                        CPU | sys      31% | user    311% | irq       2% | idle      2%  | wait     54% | ipc     0.61 |\n\
                        MEM | tot    31.2G | free  112.1M | cache 211.0M | dirty  41.2M | buff    2.1M | slab  411.1M |\n\
                        SWP | tot     2.0G | free    0.0M |              |              | vmcom  38.1G | vmlim  17.6G |\n\
                        DSK |          sda | busy    101% | read    8123 | write    412 | MBr/s   12.1 | avio 11.8 ms |\n\
                        \x20 PID  SYSCPU  USRCPU  VGROW  RGROW  RDDSK  WRDSK ST EXC THR S CPUNR  CPU CMD       1/12\n\
                        \x202211   2.91s  30.12s     0K  412K  121.2M  12.1M --   - 312 S     2 330% mysqld\n";

    #[test]
    fn the_last_screen_of_atop_says_what_is_short() {
        let said = says(ATOP);
        for wanted in [
            "The disk sda is 100 % busy, most of the requests are reads, and each takes 12 ms",
            "CPUs do nothing because threads wait for a disk: 0.5 of them together",
            "100 % of the swap space is in use",
        ] {
            assert!(said.iter().any(|sentence| sentence == wanted), "{said:?}");
        }
        let quiet = ATOP
            .replace("busy    101%", "busy     12%")
            .replace("wait     54%", "wait      4%")
            .replace("free    0.0M", "free    2.0G");
        let later = says(&format!("{ATOP}{quiet}"));
        assert!(
            !later.iter().any(|sentence| sentence.contains("sda") || sentence.contains("swap")),
            "{later:?}"
        );
        assert_eq!(system::read(&quiet.replace("free  112.1M", "free   12.1G")).says, Vec::<String>::new());
    }

    #[test]
    fn the_meters_and_the_list_of_htop_say_what_top_does() {
        let htop = "  1  [||||||||||||||||||||||||||||||100.0%]   Tasks: 61, 184 thr; 5 running\n  \
                    2  [|||||||||||||||||||||||||||||| 98.7%]   Load average: 9.81 8.12 6.30\n  \
                    Mem[||||||||||||||||||||||||7.61G/7.76G]   Uptime: 31 days, 04:11:52\n  \
                    Swp[||||||||||||||||||||||||1.98G/2.00G]\n\n    \
                    PID USER      PRI  NI  VIRT   RES   SHR S CPU% MEM%   TIME+  Command\n   \
                    2211 mysql      20   0 9871M 6512M  8120 S 187. 81.9 912h11:02 /usr/sbin/mysqld\n   \
                    2240 mysql      20   0 9871M 6512M  8120 R 96.1 81.9 210h01:11 /usr/sbin/mysqld\n";
        let said = says(htop);
        for wanted in ["The server uses 1.9 CPUs, and 0.", "99 % of the swap space is in use"] {
            assert!(said.iter().any(|sentence| sentence.starts_with(wanted)), "{said:?}");
        }
        let is_full = |text: &str| {
            system::read(text)
                .troubles
                .iter()
                .any(|trouble| trouble.kind == spindoctor_model::TroubleKind::CpusFull)
        };
        assert!(is_full(htop));
        // A CPU without a bar is idle.
        let half =
            htop.replace("|||||||||||||||||||||||||||||| 98.7%", "                                1.2%");
        assert!(!is_full(&half), "{:?}", says(&half));
        assert!(
            says(&half).iter().any(|sentence| sentence == "The server uses 1.9 CPUs"),
            "{:?}",
            says(&half)
        );
        let well = htop
            .replace("7.61G", "3.61G")
            .replace("1.98G", "0.01G")
            .replace("187.", "12.1")
            .replace("96.1", "8.1");
        assert_eq!(says(&well), Vec::<String>::new());
    }
}
