//! Rows of `top` and `htop` without their head: who asks about a server pastes its row alone.
//!
//! ```text
//!  4711 mysql     20   0   25.1g  18.2g   9876 S 391.7  28.9 812:33.11 mysqld
//! ```

use crate::amounts::bytes;

/// The names of the columns, which both have in this order.
const HEAD: &str = "PID USER PR NI VIRT RES SHR S %CPU %MEM TIME+ COMMAND";
const COLUMNS: usize = 12;

/// The longest row that is looked at, bytes.
const LONGEST: usize = 2_000;

/// The lines of a text, with a head above such rows. Several rows of servers may be of threads, which count together with their process,
/// and rows of other programs alone say nothing of a server: such texts are as they were.
pub(crate) fn with_head(lines: Vec<String>) -> Vec<String> {
    let is_head = |line: &String| line.contains("PID") && line.contains("CPU");
    let of_servers = lines.iter().filter(|line| row(line).is_some_and(is_server)).count();
    if of_servers != 1 || lines.iter().any(is_head) {
        return lines;
    }
    let mut all = Vec::with_capacity(lines.len() + 1);
    let mut is_below_head = false;
    for line in lines {
        let is_row = row(&line).is_some();
        if is_row && !is_below_head {
            all.push(HEAD.to_owned());
        }
        is_below_head = is_row;
        all.push(line);
    }
    all
}

fn is_server(command: &str) -> bool {
    ["mysqld", "mariadbd"].contains(&command.rsplit('/').next().unwrap_or(command))
}

/// The command of a row.
fn row(line: &str) -> Option<&str> {
    if line.len() > LONGEST {
        return None;
    }
    let words: Vec<&str> = line.split_whitespace().take(COLUMNS).collect();
    let [id, _, priority, nice, virt, res, shared, state, cpu, memory, time, command] = words[..] else {
        return None;
    };
    let is_number = |word: &str| word.replace(',', ".").parse::<f64>().is_ok_and(f64::is_finite);
    let is_row = id.bytes().all(|byte| byte.is_ascii_digit())
        && (priority == "rt" || priority == "RT" || priority.parse::<i32>().is_ok())
        && nice.parse::<i32>().is_ok()
        && [virt, res, shared].iter().all(|amount| bytes(&amount.replace(',', ".")).is_some())
        && ["R", "S", "D", "Z", "T", "t", "I"].contains(&state)
        && is_number(cpu)
        && is_number(memory)
        && time.contains(':')
        && time.starts_with(|c: char| c.is_ascii_digit())
        && !is_number(command);
    is_row.then_some(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(text: &str) -> Vec<String> {
        crate::recognise("x", text).into_iter().flat_map(|part| part.says).collect()
    }

    const ROW: &str = " 4711 mysql     20   0   25.1g  18.2g   9876 S 391.7  28.9 812:33.11 mysqld\n";
    const SAYS: &str = "The server uses 3.9 CPUs: top -H -p PID says which of its threads";

    #[test]
    fn the_row_of_a_server_alone_says_what_it_uses() {
        assert_eq!(says(ROW), [SAYS]);
        let with_others = format!(
            "It looks like this in top:\n\n{ROW}  811 root      20   0  251900  18888   9876 S   1.7   0.9   2:33.11 nginx\n"
        );
        assert_eq!(says(&with_others), [SAYS]);
        // Of htop, and with the commas of other languages.
        let other =
            ROW.replace("391.7  28.9", "391,7  28,9").replace("mysqld", "/usr/sbin/mysqld --user=mysql");
        assert_eq!(says(&other), [SAYS]);
    }

    #[test]
    fn what_is_no_row_of_one_server_stays_as_it_is() {
        let several = format!("{ROW}{ROW}");
        let head =
            format!("  PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND\n{ROW}");
        for text in [
            several.as_str(),
            head.as_str(),
            " 4711 web       20   0   25.1g  18.2g   9876 S 391.7  28.9 812:33.11 nginx\n",
            "4711 mysql 20 0 of 25.1g and 18.2g S 391.7 28.9 812:33.11 mysqld\n",
        ] {
            let lines: Vec<String> = text.lines().map(str::to_owned).collect();
            assert_eq!(with_head(lines.clone()), lines);
        }
    }
}
