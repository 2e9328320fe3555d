//! What a container of a server uses, or its control group, by `docker stats`, `kubectl top` and `systemd-cgtop`.
//!
//! ```text
//! CONTAINER ID   NAME    CPU %     MEM USAGE / LIMIT     MEM %     NET I/O          BLOCK I/O        PIDS
//! 21cfa355ec2f   mysql   198.42%   7.61GiB / 8GiB        95.13%    18.8MB / 883kB   63.4MB / 129MB   61
//!
//! NAME      CPU(cores)   MEMORY(bytes)
//! mysql-0   1999m        3975Mi
//!
//! Control Group                Tasks   %CPU   Memory  Input/s Output/s
//! system.slice/mysql.service      61  390.2    28.1G     1.2M    90.1M
//! ```

use std::collections::BTreeMap;

use spindoctor_model::number;

use crate::amounts::{amount, bytes};
use crate::kernel_log::{is_name_of_server, names_server};
use crate::system::{MOST_ROWS, MOST_WORDS, SystemText, tables};

/// True for the names of the columns of one of them.
pub(crate) fn is_head(line: &str) -> bool {
    is_of_docker(line) || line.contains("CPU(cores)") && line.contains("MEMORY(bytes)") || is_of_groups(line)
}

fn is_of_groups(line: &str) -> bool {
    line.contains("Control Group") && line.contains("%CPU") && line.contains("Memory")
}

fn is_of_docker(line: &str) -> bool {
    line.contains("CPU %") && line.contains("MEM USAGE")
}

/// Says what those of servers use.
pub(crate) fn read(text: &str, found: &mut SystemText) {
    docker(text, found);
    kubernetes(text, found);
    groups(text, found);
}

/// A row of `docker stats`.
struct Row<'t> {
    name: &'t str,
    cpu_percent: f64,
    /// What is used, and how much of it may be, as it is printed.
    used: String,
    limit: String,
    memory_percent: f64,
}

fn docker(text: &str, found: &mut SystemText) {
    let mut has_names = None;
    // Of several screens the last row of a container counts.
    let mut rows: BTreeMap<&str, Row<'_>> = BTreeMap::new();
    for line in text.lines().take(MOST_ROWS) {
        if is_of_docker(line) {
            has_names = Some(line.split_whitespace().any(|word| word == "NAME"));
        } else if let Some(row) = has_names.and_then(|has_names| row(line, has_names)) {
            rows.insert(row.name, row);
        }
    }
    // A container that was asked for by itself is the server's.
    let is_alone = rows.len() == 1;
    for row in rows.into_values().filter(|row| is_alone || names_server(&row.name.to_ascii_lowercase())) {
        let sentence = format!(
            "The container {} uses {:.1} CPUs, and {} of the {} of memory that it may ({:.0} %)",
            row.name,
            row.cpu_percent / 100.0,
            row.used,
            row.limit,
            row.memory_percent
        );
        found.add("docker stats", None, sentence);
    }
}

fn row(line: &str, has_names: bool) -> Option<Row<'_>> {
    let words: Vec<&str> = line.split_whitespace().take(MOST_WORDS).collect();
    let percent = |at: usize| amount(words.get(at)?.strip_suffix('%')?);
    let mut percents = (0..words.len()).filter(|at| percent(*at).is_some());
    let (cpu, memory) = (percents.next()?, percents.next()?);
    let amounts = words.get(cpu + 1..memory)?.join(" ");
    let (used, limit) = amounts.split_once(" / ")?;
    let name = if has_names { *words.get(cpu.checked_sub(1)?)? } else { *words.first()? };
    Some(Row {
        name,
        cpu_percent: percent(cpu)?,
        used: used.to_owned(),
        limit: limit.to_owned(),
        memory_percent: percent(memory)?,
    })
}

fn kubernetes(text: &str, found: &mut SystemText) {
    let is_head = |words: &[&str]| words.contains(&"CPU(cores)") && words.contains(&"MEMORY(bytes)");
    for row in tables(text, is_head).into_iter().flatten() {
        let names: Vec<&str> = ["POD", "NAME"].iter().filter_map(|column| row.get(column).copied()).collect();
        let cpu = row.get("CPU(cores)");
        let cpus =
            cpu.and_then(|cpu| cpu.strip_suffix('m').map_or_else(|| amount(cpu), |m| Some(amount(m)? / 1e3)));
        let memory = row.get("MEMORY(bytes)").and_then(|memory| bytes(memory));
        let is_server = names_server(&names.join(" ").to_ascii_lowercase());
        if let (Some(cpus), Some(memory), true) = (cpus, memory, is_server) {
            let sentence =
                format!("{} uses {cpus:.1} CPUs and {} of memory", names.join(" "), number::bytes(memory));
            found.add("kubectl top", None, sentence);
        }
    }
}

/// `systemd-cgtop`, which has a `-` for what it does not know, as for the CPU in its first list.
fn groups(text: &str, found: &mut SystemText) {
    let mut is_list = false;
    // Of several lists the last row of a group counts.
    let mut rows: BTreeMap<&str, String> = BTreeMap::new();
    for line in text.lines().take(MOST_ROWS) {
        if is_of_groups(line) {
            is_list = true;
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().take(MOST_WORDS).collect();
        let [group, _, cpu, memory, input, output] = words[..] else { continue };
        let name = group.rsplit('/').next().unwrap_or(group).to_ascii_lowercase();
        if !is_list || !is_name_of_server(&name) {
            continue;
        }
        let uses = [
            amount(cpu).map(|percent| format!("{:.1} CPUs", percent / 100.0)),
            bytes(memory).map(|memory| format!("{} of memory", number::bytes(memory))),
        ];
        let uses: Vec<String> = uses.into_iter().flatten().collect();
        let disk = match (bytes(input), bytes(output)) {
            (Some(read), Some(written)) => {
                format!("; it reads {} and writes {} a second", number::bytes(read), number::bytes(written))
            }
            _ => String::new(),
        };
        if !uses.is_empty() {
            rows.insert(group, format!("The control group {group} uses {}{disk}", uses.join(" and ")));
        }
    }
    rows.into_values().for_each(|sentence| found.add("systemd-cgtop", None, sentence));
}

#[cfg(test)]
mod tests {
    use crate::{recognise, system};

    #[test]
    fn what_a_container_of_a_server_uses_is_said() {
        let text = "CONTAINER ID   NAME       CPU %     MEM USAGE / LIMIT     MEM %     NET I/O   BLOCK I/O   PIDS\n\
                    91c44695d1db   shop-db-mysql-1   198.42%   7.61GiB / 8GiB   95.13%   18MB / 8kB   63MB / 1MB   61\n\
                    07e30b15331d   shop-web   12.00%   352.3MiB / 8GiB   4.26%   27MB / 37MB   9MB / 3kB   9\n";
        let says = "The container shop-db-mysql-1 uses 2.0 CPUs, and 7.61GiB of the 8GiB of memory that it may (95 %)";
        assert_eq!(system::read(text).says, [says]);
        // A second screen.
        let later = text.replace("198.42%", "98.42%");
        assert_eq!(system::read(&format!("{text}{later}")).says, [says.replace("2.0", "1.0")]);
        let parts = recognise("x", &format!("docker stats --no-stream\n{text}"));
        assert!(parts.iter().any(|part| part.says == [says]), "{parts:?}");
        // Before it had names, and with blanks before the units.
        let old = "CONTAINER           CPU %               MEM USAGE / LIMIT     MEM %               NET I/O\n\
                   1b11b69235ed        120.27%             2.343 GB / 7.795 GB   30.05%              137 kB / 186 kB\n";
        assert_eq!(
            system::read(old).says,
            [
                "The container 1b11b69235ed uses 1.2 CPUs, and 2.343 GB of the 7.795 GB of memory that it may (30 %)"
            ]
        );
    }

    #[test]
    fn pods_of_servers_say_what_they_use_and_others_do_not() {
        let text = "NAME                 CPU(cores)   MEMORY(bytes)\nmysql-0              1999m        3584Mi\n\
                    web-7d4f             900m         120Mi\n";
        assert_eq!(system::read(text).says, ["mysql-0 uses 2.0 CPUs and 3.5 GiB of memory"]);
        let containers =
            "POD     NAME      CPU(cores)   MEMORY(bytes)\ndb-0    mariadb   240m         512Mi\n";
        assert_eq!(system::read(containers).says, ["db-0 mariadb uses 0.2 CPUs and 512 MiB of memory"]);
    }

    #[test]
    fn the_control_group_of_a_server_says_what_it_uses() {
        let text = "Control Group                            Tasks   %CPU   Memory  Input/s Output/s\n\
                    /                                          212  398.1    30.1G        -        -\n\
                    system.slice/mysql.service                  61  390.2    28.0G     1.5M    90.0M\n\
                    system.slice/mysql-router.service            9    1.1     120M        -        -\n\
                    system.slice/nginx.service                   9    1.1     120M        -        -\n";
        let says = "The control group system.slice/mysql.service uses 3.9 CPUs and 28 GiB of memory; it reads 1.5 MiB and writes \
                    90 MiB a second";
        assert_eq!(system::read(text).says, [says]);
        let parts = recognise("x", &format!("$ systemd-cgtop -b -n 1\n{text}"));
        assert!(parts.iter().any(|part| part.says == [says]), "{parts:?}");
        let first = text.replace("390.2", "-").replace("1.5M    90.0M", "-    -");
        assert_eq!(
            system::read(&first).says,
            ["The control group system.slice/mysql.service uses 28 GiB of memory"]
        );
    }
}
