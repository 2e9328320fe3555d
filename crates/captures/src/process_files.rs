//! What the kernel's files of a process say of a server: `/proc/PID/limits`, `/proc/PID/status`, `/proc/PID/smaps` and `smaps_rollup`.
//!
//! ```text
//! Limit                     Soft Limit           Hard Limit           Units
//! Max open files            1024                 4096                 files
//!
//! Name:   mysqld
//! VmRSS:  98112233 kB
//! VmSwap: 22800704 kB
//!
//! Rss:            63011222 kB
//! Pss:            63000112 kB
//! Swap:            3112233 kB
//! ```

use spindoctor_model::number;

use crate::system::{MOST_ROWS, SystemText};

/// MySQL asks for as many open files at the least, whatever its settings (sql/mysqld.cc, adjust_open_files_limit).
const LEAST_FILES: u64 = 5_000;
/// Part of a server's memory that lies in the swap space, and how much of it, from which on that is worth a sentence: what nobody touches
/// lies there at no cost. By judgement.
const SWAPPED_RATIO: f64 = 0.05;
const SWAPPED_BYTES: f64 = 256.0 * 1_048_576.0;

/// True for a line that such a file has, and nothing else.
pub(crate) fn is_line(line: &str) -> bool {
    line.starts_with("Limit ") && line.contains(" Soft Limit ")
        || most_files(line).is_some()
        || is_name_of_server(line)
        || ["VmRSS:", "VmSwap:", "Rss:", "Pss:", "SwapPss:"].iter().any(|name| kib(line, name).is_some())
}

/// Says what of them a server suffers from.
pub(crate) fn read(text: &str, found: &mut SystemText) {
    let most = text.lines().take(MOST_ROWS).find_map(most_files);
    if let Some(most) = most.filter(|most| *most < LEAST_FILES) {
        let sentence = format!(
            "The process may have {} open (Max open files): a server keeps fewer connections and tables open to stay below that, or meets \
             error 24. LimitNOFILE= of its systemd unit, or ulimit -n of who starts it, raises it with the next start",
            number::counted(most, "file", "files")
        );
        found.add("/proc/PID/limits", None, sentence);
    }
    let is_of_server = text.lines().take(MOST_ROWS).any(is_name_of_server);
    if is_of_server {
        swapped(text, ["VmRSS:", "VmSwap:"], "/proc/PID/status", "server", found);
    }
    if total(text, "Pss:").is_some() {
        swapped(text, ["Rss:", "Swap:"], "/proc/PID/smaps", "process", found);
    }
}

/// Says how much of a process's memory lies in the swap space, where that is much.
fn swapped(text: &str, names: [&str; 2], source: &str, whose: &str, found: &mut SystemText) {
    let [Some(resident), Some(swapped)] = names.map(|name| total(text, name)) else { return };
    if swapped >= SWAPPED_BYTES && swapped >= SWAPPED_RATIO * (resident + swapped) {
        let sentence = format!(
            "Of the {whose}'s memory {} lie in the swap space, beside {} in memory: a thread that touches them waits for a disk. vmstat 1 \
             (si, so) says whether it goes on",
            number::bytes(swapped),
            number::bytes(resident)
        );
        found.add(source, None, sentence);
    }
}

/// The soft limit of `Max open files            1024                 4096                 files`.
fn most_files(line: &str) -> Option<u64> {
    let words: Vec<&str> = line.trim().strip_prefix("Max open files")?.split_whitespace().take(4).collect();
    match words.as_slice() {
        [soft, _, "files"] => soft.parse().ok(),
        _ => None,
    }
}

/// True for `Name:   mysqld`.
fn is_name_of_server(line: &str) -> bool {
    line.strip_prefix("Name:").is_some_and(|name| ["mysqld", "mariadbd"].contains(&name.trim()))
}

/// The KiB of `VmRSS:  98112233 kB`.
fn kib(line: &str, name: &str) -> Option<f64> {
    line.trim_start().strip_prefix(name)?.trim().strip_suffix(" kB")?.trim_end().parse().ok()
}

/// The bytes of all lines with that name: of `smaps` each mapping has one.
fn total(text: &str, name: &str) -> Option<f64> {
    let all = text.lines().take(MOST_ROWS).filter_map(|line| kib(line, name)).map(|kib| kib * 1_024.0);
    all.reduce(|one, other| one + other)
}

#[cfg(test)]
mod tests {
    use crate::{recognise, system};

    fn says(text: &str) -> Vec<String> {
        recognise("x", text).into_iter().flat_map(|part| part.says).collect()
    }

    #[test]
    fn few_open_files_are_said() {
        let limits = |files: &str| {
            format!(
                "# cat /proc/71/limits\nLimit                     Soft Limit           Hard Limit           Units     \n\
                 Max cpu time              unlimited            unlimited            seconds   \n\
                 Max core file size        0                    unlimited            bytes     \n\
                 Max open files            {files}                 4096                 files     \n"
            )
        };
        let said = says(&limits("1024"));
        assert!(said.len() == 1 && said[0].starts_with("The process may have 1024 files open"), "{said:?}");
        assert_eq!(says(&limits("65535")), Vec::<String>::new());
        assert_eq!(recognise("x", &limits("65535"))[0].kind, crate::Kind::System);
    }

    #[test]
    fn memory_of_a_server_in_the_swap_space_is_said() {
        let status = |name: &str, swap: &str| {
            format!(
                "Name:\t{name}\nState:\tS (sleeping)\nPid:\t71\nVmPeak:\t12000000 kB\nVmRSS:\t 8388608 kB\nVmSwap:\t{swap} kB\n"
            )
        };
        let wanted = "Of the server's memory 4 GiB lie in the swap space, beside 8 GiB in memory";
        let said = says(&status("mysqld", " 4194304"));
        assert!(said.len() == 1 && said[0].starts_with(wanted), "{said:?}");
        for text in [status("mysqld", "       0"), status("mysqld", "  131072"), status("java", " 4194304")] {
            assert_eq!(system::read(&text).says, Vec::<String>::new(), "{text}");
        }
        let rollup = "Rss:             8388608 kB\nPss:             8380000 kB\nSwap:            4194304 kB\nSwapPss:         4194304 kB\n";
        let said = says(rollup);
        assert!(said.len() == 1 && said[0].starts_with(&wanted.replace("server", "process")), "{said:?}");
    }
}
