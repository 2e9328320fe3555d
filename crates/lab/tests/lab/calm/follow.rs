//! Continuous sampling of real servers through trouble: a restart, a hang, a killed connection, no connection left, a
//! source that is expensive.
#![expect(clippy::unwrap_used, reason = "what tests share stands outside of #[test] functions")]

use std::time::Duration;

use mysql_async::prelude::Queryable;
use spindoctor_collect::follow::{FollowOptions, Followed, Follower, Note, PROBE, Period};
use spindoctor_collect::mysql::{ConnectError, Endpoint, Target};
use spindoctor_lab::{Server, Which};
use spindoctor_model::{Gap, Probe, ProbeFailure, RecordedSample, Segment};

use super::set_up::server;

/// How long a busy machine may take for anything that is waited for here.
const PATIENCE: Duration = Duration::from_secs(90);

fn by_socket(server: &Server) -> Target {
    Target::new(Endpoint::Socket(server.socket().to_owned()), "root")
}

/// As `spindoctor`, by TCP: an account without the rights of an administrator.
fn by_port(server: &Server) -> Target {
    let endpoint = Endpoint::Tcp { host: "127.0.0.1".to_owned(), port: server.port() };
    let mut target = Target::new(endpoint, "spindoctor");
    target.password = Some("spindoctor".into());
    target
}

/// A follower, and all that it yielded.
struct Watched {
    follower: Follower,
    all: Vec<Followed>,
}

impl Watched {
    fn start(target: Target, options: FollowOptions) -> Self {
        Self { follower: Follower::start(target, options), all: Vec::new() }
    }

    /// The next thing for which this has an answer.
    async fn until<T>(&mut self, what: &str, mut pick: impl FnMut(&Followed) -> Option<T>) -> T {
        let found = tokio::time::timeout(PATIENCE, async {
            loop {
                let followed = self.follower.next().await.expect("it has no end");
                let picked = pick(&followed);
                self.all.push(followed);
                if let Some(picked) = picked {
                    return picked;
                }
            }
        });
        match found.await {
            Ok(found) => found,
            Err(_) => panic!("{what} did not happen: {:#?}", self.events()),
        }
    }

    async fn segment(&mut self) -> Segment {
        let is_one = |followed: &Followed| match followed {
            Followed::Segment(segment) => Some(segment.clone()),
            _ => None,
        };
        self.until("a segment", is_one).await
    }

    async fn gap(&mut self, what: &str, is_wanted: impl Fn(&Gap) -> bool) -> Gap {
        self.until(what, |followed| match followed {
            Followed::Gap(gap) if is_wanted(gap) => Some(gap.clone()),
            _ => None,
        })
        .await
    }

    async fn sample(&mut self, what: &str, is_wanted: impl Fn(&RecordedSample) -> bool) -> RecordedSample {
        self.until(what, |followed| match followed {
            Followed::Sample(sample) if is_wanted(sample) => Some((**sample).clone()),
            _ => None,
        })
        .await
    }

    async fn probe(&mut self, what: &str, is_wanted: impl Fn(&Probe) -> bool) -> Probe {
        self.until(what, |followed| match followed {
            Followed::Probe(probe) if is_wanted(probe) => Some(*probe),
            _ => None,
        })
        .await
    }

    /// What was reported so far, samples and probes left out.
    fn events(&self) -> Vec<&Followed> {
        let is_reported =
            |followed: &&Followed| !matches!(followed, Followed::Sample(_) | Followed::Probe(_));
        self.all.iter().filter(is_reported).collect()
    }
}

fn is_answered(sample: &RecordedSample) -> bool {
    sample.sample.server.status.value().is_some()
}

async fn samples_and_probes_come_by_themselves(which: Which) {
    let server = server(which, &[]).await;
    let mut watched = Watched::start(by_socket(&server), FollowOptions::default());
    let segment = watched.segment().await;
    assert_eq!((segment.id, segment.server.pid), (1, Some(server.pid())));
    assert_eq!(segment.server.version, Some(server.version()));
    assert!(segment.server.uptime_s.is_some(), "{:?}", segment.server);

    let first = watched.sample("a first sample", is_answered).await;
    assert_eq!(first.segment, 1);
    let of_server = &first.sample.server;
    assert!(
        of_server.variables.value().is_some() && of_server.threads.value().is_some(),
        "the first answer lacks variables or threads"
    );
    // A server that is slow to answer does so in a later sample than the host.
    let of_host = watched.all.iter().find_map(|followed| match followed {
        Followed::Sample(sample) => Some(&sample.sample.host),
        _ => None,
    });
    assert!(
        of_host.is_some_and(|host| host.process.value().is_some() && host.threads.value().is_some()),
        "the first sample of the host lacks the process or its threads"
    );
    let second = watched.sample("a second sample", is_answered).await;
    assert!(
        second.at > first.at && second.sample.at_s >= 0.9,
        "the second sample is not a second later: {second:?}"
    );
    assert!(second.sample.server.variables.value().is_none(), "variables are read once a minute");

    let probe = watched.probe("a probe that is answered", |probe| probe.questions.is_some()).await;
    assert!(probe.answered && probe.took_ms > 0.0, "{probe:?}");
    assert!(probe.threads_connected.unwrap() >= 2, "{probe:?}");
    assert!(probe.checkpoint_age_bytes.is_some(), "{probe:?}");
    assert!(probe.commits.is_some() || !server.version().is_mariadb(), "{probe:?}");
    let later =
        watched.probe("a later probe", |later| later.questions > probe.questions && later.at_s > probe.at_s);
    assert!(later.await.checkpoint_age_bytes.is_some(), "a later probe has no age of the checkpoint");

    // Neither of its own two connections is among the server's.
    let listed = watched.sample("threads", |sample| sample.sample.server.threads.value().is_some()).await;
    let own: Option<String> = server
        .ask("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() AND COMMAND <> 'Daemon'")
        .await
        .unwrap();
    assert!(
        own.is_some_and(|connections| connections.parse::<u32>().unwrap() >= 2),
        "the follower has fewer than two connections"
    );
    let threads = listed.sample.server.threads.value().unwrap();
    assert!(threads.iter().all(|thread| thread.user != "root"), "{threads:#?}");

    if !server.version().is_mariadb() {
        counters_are_read_in_the_servers_memory(&server, &mut watched).await;
    }
    let costs = watched.follower.costs();
    let cost = |name: &str| costs.iter().find(|cost| cost.source == name).unwrap();
    assert!(cost("SHOW GLOBAL STATUS").asked >= 2 && cost("SHOW GLOBAL STATUS").rows > 200);
    assert!(cost(PROBE).asked >= 2 && cost("/proc/PID/stat").asked >= 2);
    watched.follower.finish().await;
    server.stop().unwrap();
}

/// Once it is known where they are. Only then commits are not among them.
async fn counters_are_read_in_the_servers_memory(server: &Server, watched: &mut Watched) {
    /// The probe's connection and that of the samples.
    const OWN: u64 = 2;
    let is_of_memory = |probe: &Probe| probe.answered && probe.commits.is_none() && probe.questions.is_some();
    // Those who asked before are gone when the server has seen that their connections are closed.
    let is_alone = |probe: &Probe| is_of_memory(probe) && probe.threads_connected == Some(OWN);
    let calm = watched.probe("a probe that read memory, of nobody else", is_alone).await;
    assert!(calm.checkpoint_age_bytes.is_some(), "{calm:?}");
    let mut busy = Vec::new();
    for _ in 0..4 {
        let mut connection = server.connect().await.unwrap();
        busy.push(tokio::spawn(async move { connection.query_drop("SELECT SLEEP(3)").await }));
    }
    let has_four = |probe: &Probe| is_of_memory(probe) && probe.threads_running >= Some(4);
    let crowded = watched.probe("a probe that read of four who run", has_four).await;
    assert_eq!(crowded.threads_connected, Some(OWN + 4));
    assert!(crowded.questions >= calm.questions.map(|questions| questions + 4), "{calm:?} {crowded:?}");
    let said = server
        .ask("SELECT VARIABLE_VALUE FROM performance_schema.global_status WHERE VARIABLE_NAME = 'Queries'");
    let said: u64 = said.await.unwrap().unwrap().parse().unwrap();
    let read = crowded.questions.unwrap();
    // Some are sent between the two.
    assert!(read.abs_diff(said) < 200, "{read} {said}");
    let has_none = |probe: &Probe| is_of_memory(probe) && probe.threads_running == Some(0);
    watched.probe("a probe that read of nobody who runs", has_none).await;
    for sleeping in busy {
        sleeping.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn samples_and_probes_of_mysql_come_by_themselves() {
    samples_and_probes_come_by_themselves(Which::Mysql).await;
}

#[tokio::test]
async fn samples_and_probes_of_mariadb_come_by_themselves() {
    samples_and_probes_come_by_themselves(Which::Mariadb).await;
}

async fn a_restart_is_a_gap_and_a_new_segment(which: Which) {
    let mut server = server(which, &[]).await;
    let mut watched = Watched::start(by_socket(&server), FollowOptions::default());
    let before = watched.segment().await;
    let last = watched.sample("a sample before the restart", is_answered).await;
    server.restart().await.unwrap();

    let begins = watched.gap("a gap that begins", |gap| gap.to.is_none()).await;
    assert!(begins.from >= last.at, "{begins:?}");
    let ends = watched.gap("a gap that ends", |gap| gap.to.is_some()).await;
    assert_eq!((ends.from, ends.because.as_str()), (begins.from, "the server was restarted"));
    let after = watched.segment().await;
    assert_eq!((after.id, after.server.pid), (before.id + 1, Some(server.pid())));
    assert_ne!(before.server.pid, after.server.pid);
    let first = watched.sample("a sample after the restart", |_| true).await;
    assert_eq!(first.segment, after.id);
    assert!(first.at >= ends.to.unwrap() && is_answered(&first), "{:?}", first.sample.server.status);
    assert!(first.sample.server.variables.value().is_some(), "a segment begins with everything");
    watched.probe("a probe after the restart", |probe| probe.answered).await;
    watched.follower.finish().await;
    server.stop().unwrap();
}

#[tokio::test]
async fn a_restart_of_mysql_is_a_gap_and_a_new_segment() {
    a_restart_is_a_gap_and_a_new_segment(Which::Mysql).await;
}

#[tokio::test]
async fn a_restart_of_mariadb_is_a_gap_and_a_new_segment() {
    a_restart_is_a_gap_and_a_new_segment(Which::Mariadb).await;
}

async fn while_the_server_hangs_probes_are_unanswered_and_the_host_goes_on(which: Which) {
    let server = server(which, &[]).await;
    let mut watched = Watched::start(by_socket(&server), FollowOptions::default());
    let segment = watched.segment().await;
    watched.sample("a sample before", is_answered).await;
    watched.probe("a probe before", |probe| probe.answered).await;

    server.pause(true);
    let unanswered = watched.probe("a probe without an answer", |probe| !probe.answered).await;
    assert_eq!(unanswered.failure, Some(ProbeFailure::NoAnswer));
    assert!(unanswered.took_ms >= 990.0, "{unanswered:?}");
    let begins = watched.gap("a gap that begins", |gap| gap.to.is_none()).await;
    for _ in 0..3 {
        let sample = watched.sample("a sample of the host", |_| true).await;
        let process = sample.sample.host.process.value().expect("the host goes on");
        assert_eq!(process.state, "T");
        assert!(sample.sample.server.status.unavailable().is_some(), "what was due says why it is not there");
    }
    server.pause(false);
    let ends = watched.gap("a gap that ends", |gap| gap.to.is_some()).await;
    assert_eq!(ends.from, begins.from);
    let back = watched.sample("a sample after", is_answered).await;
    assert_eq!(back.segment, segment.id, "it is the same server");
    watched.probe("a probe after", |probe| probe.answered).await;
    watched.follower.finish().await;
    server.stop().unwrap();
}

#[tokio::test]
async fn while_mysql_hangs_probes_are_unanswered_and_the_host_goes_on() {
    while_the_server_hangs_probes_are_unanswered_and_the_host_goes_on(Which::Mysql).await;
}

#[tokio::test]
async fn while_mariadb_hangs_probes_are_unanswered_and_the_host_goes_on() {
    while_the_server_hangs_probes_are_unanswered_and_the_host_goes_on(Which::Mariadb).await;
}

#[tokio::test]
async fn a_connection_that_was_killed_is_made_again() {
    for which in [Which::Mysql, Which::Mariadb] {
        let server = server(which, &[]).await;
        let mut watched = Watched::start(by_socket(&server), FollowOptions::default());
        let segment = watched.segment().await;
        watched.sample("a sample before", is_answered).await;
        watched.probe("a probe before", |probe| probe.answered).await;
        let mut conn = server.connect().await.unwrap();
        let others = "SELECT ID FROM information_schema.PROCESSLIST \
            WHERE ID <> CONNECTION_ID() AND USER = 'root' AND COMMAND <> 'Daemon'";
        let own: Vec<u64> = conn.query(others).await.unwrap();
        assert!(own.len() >= 2 && own.contains(&segment.server.own_connection_id.unwrap()), "{own:?}");
        for id in own {
            // One may have ended by itself.
            let _killed = conn.query_drop(format!("KILL {id}")).await;
        }
        let closed = watched.probe("a probe of a closed connection", |probe| !probe.answered).await;
        assert_eq!(closed.failure, Some(ProbeFailure::Closed));
        let gap = watched.gap("a gap that ends", |gap| gap.to.is_some()).await;
        assert!(gap.because.contains("killed"), "{gap:?}");
        let back = watched.sample("a sample after", is_answered).await;
        assert_eq!(back.segment, segment.id);
        watched.probe("a probe after", |probe| probe.answered).await;
        drop(conn);
        watched.follower.finish().await;
        server.stop().unwrap();
    }
}

#[tokio::test]
async fn a_source_that_is_expensive_slows_itself_down_and_says_so() {
    let server = server(Which::Mysql, &[]).await;
    let mut options = FollowOptions::default();
    let name = "SHOW GLOBAL STATUS";
    let (_, pace) = options.paces.iter_mut().find(|(source, _)| *source == name).unwrap();
    assert_eq!(pace.period, Period::Every(1));
    pace.expensive_ms = 0.001;
    let mut watched = Watched::start(by_socket(&server), options);
    for period_s in [2, 4] {
        let change = watched
            .until("a note that it slows down", |followed| match followed {
                Followed::Note(Note::Pace(change)) if change.source == name => Some(change.clone()),
                _ => None,
            })
            .await;
        assert_eq!(change.period_s, period_s);
        assert!(change.because.unwrap().contains("more than"), "it says why");
    }
    let costs = watched.follower.costs();
    assert_eq!(costs.iter().find(|cost| cost.source == name).unwrap().period_s, 4.0);
    // Of the samples that follow, one in four has it, and all have the host.
    let mut asked = 0;
    for _ in 0..8 {
        let sample = watched.sample("a sample", |_| true).await;
        asked += u32::from(is_answered(&sample));
        assert!(sample.sample.host.process.value().is_some(), "a sample lacks the host: {sample:?}");
    }
    assert!((1..=3).contains(&asked), "{asked}");
    watched.follower.finish().await;
    server.stop().unwrap();
}

/// The least `max_connections` of MariaDB.
const ROOM: u32 = 10;

/// A port that nobody uses now.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Fills the server up and ends the follower's connections: what happens then is up to the test.
async fn exhaust(server: &Server, watched: &mut Watched) -> (mysql_async::Conn, Vec<mysql_async::Conn>) {
    watched.sample("a sample before", is_answered).await;
    watched.probe("a probe before", |probe| probe.answered).await;
    let mut root = server.connect().await.unwrap();
    let mut held = Vec::new();
    for _ in 0..ROOM + 2 {
        held.push(server.connect_as("app").await.unwrap());
    }
    root.query_drop(format!("SET GLOBAL max_connections = {ROOM}")).await.unwrap();
    let refused = server.connect_as("app").await.map(|conn| conn.id());
    assert!(refused.is_err_and(|error| error.to_string().contains("Too many connections")));
    // What it has it keeps.
    watched.sample("a sample while the server is full", is_answered).await;
    let own = "SELECT ID FROM information_schema.PROCESSLIST WHERE USER = 'spindoctor'";
    let own: Vec<u64> = root.query(own).await.unwrap();
    assert_eq!(own.len(), 2, "the sampler's and the probe's");
    for id in own {
        root.query_drop(format!("KILL {id}")).await.unwrap();
    }
    (root, held)
}

async fn a_full_server_is_reported_from_one_that_is_down_and_sampled_again_when_there_is_room(which: Which) {
    let server = server(which, &[]).await;
    let mut watched = Watched::start(by_port(&server), FollowOptions::default());
    let (mut root, held) = exhaust(&server, &mut watched).await;
    let full = |probe: &Probe| probe.failure == Some(ProbeFailure::TooManyConnections);
    watched.probe("a probe that finds the server full", full).await;
    let noted = |followed: &Followed| match followed {
        Followed::Note(Note::NotConnected { error, .. }) => Some(error.clone()),
        _ => None,
    };
    // It may have been seen before the probe's answer.
    let error = match watched.all.iter().find_map(noted) {
        Some(error) => error,
        None => watched.until("a note that there is no connection left", noted).await,
    };
    assert!(matches!(error, ConnectError::TooManyConnections { .. }), "{error}");
    let sample = watched.sample("a sample of the host", |sample| !is_answered(sample)).await;
    assert!(sample.sample.host.process.value().is_some(), "a sample lacks the host: {sample:?}");

    root.query_drop("SET GLOBAL max_connections = 100").await.unwrap();
    watched.gap("a gap that ends", |gap| gap.to.is_some()).await;
    watched.sample("a sample after", is_answered).await;
    watched.probe("a probe after", |probe| probe.answered).await;
    drop((root, held));
    watched.follower.finish().await;
    server.stop().unwrap();
}

#[tokio::test]
async fn a_full_mysql_is_reported_from_one_that_is_down_and_sampled_again_when_there_is_room() {
    a_full_server_is_reported_from_one_that_is_down_and_sampled_again_when_there_is_room(Which::Mysql).await;
}

#[tokio::test]
async fn a_full_mariadb_is_reported_from_one_that_is_down_and_sampled_again_when_there_is_room() {
    a_full_server_is_reported_from_one_that_is_down_and_sampled_again_when_there_is_room(Which::Mariadb)
        .await;
}

async fn gets_in_by_the_administrators_port(which: Which, options: &[&str], right: Option<&str>) {
    let server = server(which, options).await;
    server.execute(right).await.unwrap();
    let mut watched = Watched::start(by_port(&server), FollowOptions::default());
    let (root, held) = exhaust(&server, &mut watched).await;
    let closed = watched.probe("a probe of a closed connection", |probe| !probe.answered).await;
    assert_eq!(closed.failure, Some(ProbeFailure::Closed));
    watched.probe("a probe through the other port", |probe| probe.answered).await;
    watched.gap("a gap that ends", |gap| gap.to.is_some()).await;
    watched.sample("a sample through the other port", is_answered).await;
    let refused = server.connect_as("app").await.map(|conn| conn.id());
    assert!(refused.is_err(), "the server is still full");
    drop((root, held));
    watched.follower.finish().await;
    server.stop().unwrap();
}

#[tokio::test]
async fn a_full_mysql_is_entered_by_its_admin_port() {
    let port = format!("--admin-port={}", free_port());
    let options = ["--admin-address=127.0.0.1", port.as_str()];
    let right = "GRANT SERVICE_CONNECTION_ADMIN ON *.* TO spindoctor@'127.0.0.1'";
    gets_in_by_the_administrators_port(Which::Mysql, &options, Some(right)).await;
}

#[tokio::test]
async fn a_full_mariadb_is_entered_by_its_extra_port() {
    let port = format!("--extra-port={}", free_port());
    let options = [port.as_str(), "--extra-max-connections=5"];
    gets_in_by_the_administrators_port(Which::Mariadb, &options, None).await;
}
