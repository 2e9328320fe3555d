//! The servers to ask: lists, commands that print lists, discovery, selection; and how to reach each.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use spindoctor_collect::mysql::{ConnectFlags, Endpoint, Environment, Secret, Target, resolve};
use spindoctor_fleet::discover::discover;
use spindoctor_fleet::list::{self, Address, Listed};
use spindoctor_fleet::schedule::Limits;

use super::args::{FleetLogin, FleetServers, Which};
use super::query::wait_for;
use crate::common::exit::ExitStatus;
use crate::common::output;
use crate::common::session::{login_flags, note, with_password};
use spindoctor_page::number;
use spindoctor_page::safe::safe;

/// A list of a million servers with their tags has some hundred bytes for each.
const LARGEST_BYTES: u64 = 256 << 20;

/// The servers that are asked, in the order of the lists.
pub struct Fleet {
    /// How to reach each.
    pub targets: Arc<[Target]>,
    /// The name of each: `db17:3306`.
    pub names: Arc<[String]>,
    /// Its tags.
    pub tags: Vec<BTreeMap<String, String>>,
}

/// Prints the servers.
pub fn run(asked: &FleetServers) -> anyhow::Result<ExitStatus> {
    let fleet = Fleet::from_flags(&asked.which, &asked.login)?;
    let mut text = String::new();
    for (name, tags) in fleet.names.iter().zip(&fleet.tags) {
        text.push_str(&safe(name));
        for (tag, value) in tags {
            text.push_str(&safe(&format!(" {tag}={value}")));
        }
        text.push('\n');
    }
    output::print(&text)?;
    Ok(ExitStatus::Done)
}

/// The limits that the flags set.
pub fn limits(asked: &FleetLogin) -> Limits {
    Limits {
        connect: asked.connect_timeout,
        query: asked.query_timeout,
        connections: asked.connections as usize,
        per_host: asked.per_host as usize,
        per_second: asked.per_second,
        retries: asked.retries,
    }
}

impl Fleet {
    /// Reads the lists, runs the commands, follows the replicas; keeps those that are meant.
    pub fn from_flags(which: &Which, login: &FleetLogin) -> anyhow::Result<Self> {
        let reach = Reach::from_login(login)?;
        let mut listed: Vec<Listed> = Vec::new();
        for file in &which.servers {
            let text = read(file)?;
            listed.extend(list::parse(&text).with_context(|| safe(&file.display().to_string()))?);
        }
        for command in &which.servers_from {
            let text = output_of(command)?;
            listed.extend(list::parse(&text).with_context(|| format!("the output of {}", safe(command)))?);
        }
        let mut targets: Vec<(Target, BTreeMap<String, String>)> = Vec::new();
        for server in list::without_twins(listed) {
            targets.push((reach.target(&server.address)?, server.tags));
        }
        for start in &which.discover {
            targets.extend(reach.discovered(start, limits(login))?);
        }
        Self::selected(which, targets)
    }

    fn selected(which: &Which, found: Vec<(Target, BTreeMap<String, String>)>) -> anyhow::Result<Self> {
        let all = found.len();
        let (mut targets, mut names, mut tags) = (Vec::new(), Vec::new(), Vec::new());
        for (target, its_tags) in found {
            let name = target.address();
            if which.conditions.iter().all(|condition| condition.holds(&name, &its_tags)) {
                targets.push(target);
                names.push(name);
                tags.push(its_tags);
            }
        }
        if all == 0 {
            bail!("there is no server in the list");
        }
        if targets.is_empty() {
            bail!(
                "--where leaves none of {}; `spindoctor fleet servers` shows their tags",
                number::counted(all as u64, "server", "servers")
            );
        }
        Ok(Self { targets: targets.into(), names: names.into(), tags })
    }
}

fn read(file: &Path) -> anyhow::Result<String> {
    if file == Path::new("-") {
        let failed = "could not read the list from standard input";
        let bytes = bounded(std::io::stdin().lock(), LARGEST_BYTES).context(failed)?;
        return String::from_utf8(bytes).context(failed);
    }
    let failed = || format!("could not read the list {}", file.display());
    let bytes = spindoctor_safefile::read_named(file, LARGEST_BYTES).with_context(failed)?;
    String::from_utf8(bytes).with_context(failed)
}

/// All of what comes, as far as a list goes.
fn bounded(content: impl Read, most_bytes: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    content.take(most_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most_bytes {
        return Err(std::io::Error::other(format!("a list has at most {most_bytes} bytes")));
    }
    Ok(bytes)
}

fn output_of(command: &str) -> anyhow::Result<String> {
    let mut shell = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .context("could not run sh")?;
    // Its end of the pipe is closed before it is waited for: one that goes on writing ends at that.
    let printed = shell.stdout.take().map(|printed| bounded(printed, LARGEST_BYTES));
    let ended = shell.wait().context("could not wait for sh")?;
    let printed = printed.transpose().with_context(|| format!("--servers-from: {}", safe(command)))?;
    if !ended.success() {
        bail!("--servers-from: {} ended with {ended}; no server was asked", safe(command));
    }
    String::from_utf8(printed.unwrap_or_default()).context("the output of --servers-from is not UTF-8")
}

/// How servers are reached: option files are read once for all that need no more than a host.
struct Reach {
    flags: ConnectFlags,
    environment: Environment,
    common: Target,
}

impl Reach {
    fn from_login(login: &FleetLogin) -> anyhow::Result<Self> {
        let environment = Environment::from_process();
        let flags = ConnectFlags {
            port: login.port,
            connect_timeout: Some(login.connect_timeout),
            query_timeout: Some(login.query_timeout),
            ..login_flags(&login.login)
        };
        // A host, so that the common port is found and no socket.
        let somewhere = ConnectFlags { host: Some("host.invalid".to_owned()), ..flags.clone() };
        let common = resolve(&somewhere, &environment)?;
        for passed_over in &common.notes {
            note(passed_over);
        }
        let mut common = with_password(common)?;
        common.notes.clear();
        Ok(Self { flags, environment, common })
    }

    fn target(&self, address: &Address) -> anyhow::Result<Target> {
        match address {
            // The socket, as for every MySQL client, unless there is a port.
            Address::Host { host, port: None } if host.eq_ignore_ascii_case("localhost") => {
                self.resolved(&ConnectFlags { host: Some(host.clone()), ..self.flags.clone() })
            }
            Address::Host { host, port } => {
                let Endpoint::Tcp { port: common, .. } = self.common.endpoint else {
                    bail!("a host is reached by TCP; take protocol=socket out of the option file");
                };
                Ok(self.at(Endpoint::Tcp { host: host.clone(), port: port.unwrap_or(common) }))
            }
            Address::Socket(path) => Ok(self.at(Endpoint::Socket(path.into()))),
            // What the line says counts before the flags that all servers have in common.
            Address::Dsn(text) => self.resolved(&ConnectFlags {
                dsn: Some(Secret::from(text.as_str())),
                port: None,
                ..self.flags.clone()
            }),
        }
    }

    fn at(&self, endpoint: Endpoint) -> Target {
        let mut target = self.common.clone();
        target.endpoint = endpoint;
        target
    }

    fn resolved(&self, flags: &ConnectFlags) -> anyhow::Result<Target> {
        let target = resolve(flags, &self.environment)?;
        // The password that was typed is everybody's who has none of his own.
        match target.needs_password() {
            true => match &self.common.password {
                Some(password) => Ok(target.with_password(password.clone())),
                None => Ok(target),
            },
            false => Ok(target),
        }
    }

    fn discovered(
        &self,
        start: &Secret,
        limits: Limits,
    ) -> anyhow::Result<Vec<(Target, BTreeMap<String, String>)>> {
        let parsed = list::parse(start.expose()).context("--discover")?;
        let [first] = parsed.as_slice() else { bail!("--discover: one server is wanted: db17:3306") };
        let start = self.target(&first.address)?;
        let found = wait_for(async {
            let found = discover(&start, limits).await;
            found.with_context(|| format!("--discover: {}", safe(&start.address())))
        })?;
        Ok(found
            .into_iter()
            .map(|listed| {
                let mut target = start.clone();
                if let Address::Host { host, port } = listed.address {
                    target.endpoint = Endpoint::Tcp { host, port: port.unwrap_or(3306) };
                }
                (target, listed.tags)
            })
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_without_an_end_is_read_up_to_a_bound() {
        assert_eq!(bounded(&b"db17\n"[..], 5).unwrap(), b"db17\n");
        let endless = bounded(std::io::repeat(b'x'), 1 << 20).unwrap_err().to_string();
        assert_eq!(endless, "a list has at most 1048576 bytes");
    }
}
