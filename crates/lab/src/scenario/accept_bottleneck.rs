//! The accepting thread is the limit for new connections: on MySQL it has too much to do for each, on MariaDB it sleeps.

use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use spindoctor_model::Flavor;
use spindoctor_rules::causes::accept_bottleneck::CAUSE;

use super::{ALL, Scenario, Suffering, TABLES, symptom};
use crate::error::{Error, Result};
use crate::load::sessions::Sessions;
use crate::load::{LoadSpec, Workload};
use crate::server::{Server, ServerSpec};

/// Addresses that MySQL listens on: poll(2) takes about two milliseconds for so many, so that one thread accepts some
/// hundred connections a second, and the rest of the server is far from its own limit then.
const ADDRESSES: u32 = 9_000;
/// Clients that connect to it without a pause: more than one always waits while another is served.
const CONNECTING: u32 = 16;
/// The accepting thread is the limit where it runs for more of the time, as its own count of nanoseconds has it.
const RUNS_RATIO: f64 = 0.8;
/// How long that is counted.
const SPAN: Duration = Duration::from_secs(1);

/// File descriptors that are left to MariaDB when the clients come. spindoctor takes two or three of them.
const LEFT: u64 = 10;
/// Clients that come and go: more than there is room for, few enough that each gets in within some seconds.
const CLIENTS: u32 = 16;
/// How long each stays.
const STAY: Duration = Duration::from_millis(300);

pub(super) const SCENARIO: Scenario = Scenario {
    name: CAUSE.name,
    label: Some(CAUSE.name),
    story: "MySQL listens on thousands of addresses, all of which its accepting thread polls for each connection, and \
            sixteen clients connect for each query. MariaDB may open ten more files than it has open, and sixteen clients \
            come, stay for 0.3 s, and come again: whenever the descriptors are used up accept fails, and the accepting \
            thread sleeps for a second. Seen to suffer by the CPU time of that thread, or by the server's counter of failed \
            accepts.",
    // MySQL 9.7 resets clients whose session finds no descriptor, spindoctor's among them; MariaDB 10.11 listens on one
    // address.
    flavors: ALL,
    spec,
    begin: |server| Box::pin(begin(server)),
    symptom: |server, _| Box::pin(symptom(server)),
    ..Scenario::USUAL
};

fn spec(flavor: Flavor) -> ServerSpec {
    let options = match flavor {
        Flavor::Mariadb => Vec::new(),
        _ => vec![format!("--bind-address={}", addresses(ADDRESSES))],
    };
    ServerSpec { tables: Some(TABLES), options, ..ServerSpec::default() }
}

/// So many addresses of this host alone, the usual one first, as `bind_address` takes them.
fn addresses(count: u32) -> String {
    let all = (0..count).map(|at| format!("127.0.{}.{}", at / 250, at % 250 + 1));
    all.collect::<Vec<_>>().join(",")
}

async fn begin(server: &Server) -> Result<Suffering> {
    if server.version().flavor != Flavor::Mariadb {
        let workload = Workload::Connect;
        let spec = LoadSpec { workload, threads: CONNECTING, rate: None, tables: TABLES };
        return Suffering::by_load(server, spec);
    }
    // What statements open once is open before the limit falls.
    symptom::status(server, "Connection_errors_accept").await?;
    leave_descriptors(server, LEFT)?;
    let mut sessions = Sessions::default();
    for _ in 0..CLIENTS {
        sessions.come_and_go(server, STAY);
    }
    Ok(Suffering::by(sessions))
}

/// Lets the server's process open so many more files than it has open now. It ends with the server.
fn leave_descriptors(server: &Server, left: u64) -> Result<()> {
    let folder = format!("/proc/{}/fd", server.pid());
    let open = fs::read_dir(&folder).map_err(Error::file("list", folder.as_ref()))?.count() as u64;
    let unable = |because: String| Error::Unable { what: "a limit on the server's open files", because };
    let pid = Pid::from_raw(server.pid().cast_signed()).ok_or_else(|| unable("it has no process".into()))?;
    let most = Some(open + left);
    prlimit(Some(pid), Resource::Nofile, Rlimit { current: most, maximum: most })
        .map_err(|error| unable(error.to_string()))?;
    Ok(())
}

async fn symptom(server: &Server) -> Result<Option<String>> {
    if server.version().flavor != Flavor::Mariadb {
        let made_before = symptom::status(server, "Connections").await?;
        let before = symptom::accepting_thread(server)?;
        tokio::time::sleep(SPAN).await;
        let after = symptom::accepting_thread(server)?;
        let made = symptom::status(server, "Connections").await? - made_before;
        let seconds = (after.at - before.at).as_secs_f64();
        let ran_ratio = (after.ran_s - before.ran_s) / seconds;
        return Ok((ran_ratio > RUNS_RATIO).then(|| {
            let (percent, per_s) = (ran_ratio * 100.0, made / seconds);
            format!("the accepting thread runs {percent:.0} % of the time and takes {per_s:.0} connections/s")
        }));
    }
    let rates = symptom::status_per_s(server, &["Connection_errors_accept", "Connections"]).await?;
    Ok((rates[0] > 0.0)
        .then(|| format!("accept fails {:.1} times a second, {:.1} connections/s", rates[0], rates[1])))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn the_addresses_are_this_hosts_each_once_and_fit_into_an_argument() {
        /// A single argument of a program (execve(2): `MAX_ARG_STRLEN`, 32 pages).
        const MOST_BYTES: usize = 32 * 4096;
        let text = addresses(ADDRESSES);
        let all: HashSet<Ipv4Addr> = text.split(',').map(|address| address.parse().unwrap()).collect();
        assert_eq!(all.len() as u32, ADDRESSES);
        assert!(text.starts_with("127.0.0.1,") && all.iter().all(Ipv4Addr::is_loopback));
        assert!(text.len() + "--bind-address=".len() < MOST_BYTES, "{}", text.len());
    }
}
