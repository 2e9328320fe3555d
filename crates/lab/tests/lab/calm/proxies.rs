//! Addresses with two real servers behind them: what they say never stands in one window.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what tests share stands outside of #[test] functions"
)]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use spindoctor_collect::follow::{FollowOptions, Followed, Follower};
use spindoctor_collect::host::HostChoice;
use spindoctor_collect::mysql::{ConnectError, Endpoint, Limits, Session, Target};
use spindoctor_collect::watch::{Progress, WatchOptions, watch};
use spindoctor_lab::stub::proxy::{Proxy, Shares};
use spindoctor_lab::{Home, Server, ServerSpec, Which};
use spindoctor_model::{ServerSample, Unavailable, Window};

/// How long a busy machine may take for anything that is waited for here.
const PATIENCE: Duration = Duration::from_secs(90);
/// What the second server has in another number than the first: by it each sample shows whose it is. Half of the pages of 16 KiB.
const PAGES: &str = "Innodb_buffer_pool_pages_total";
const POOLS: [&str; 2] = ["--innodb-buffer-pool-size=64M", "--innodb-buffer-pool-size=32M"];

/// Two servers of a flavor, and what stands before them.
struct Two {
    servers: [Server; 2],
    proxy: Proxy,
    _folder: tempfile::TempDir,
}

impl Two {
    async fn start(which: Which, shares: Shares) -> Self {
        let home = Home::open().unwrap();
        let start = async |option: &str| {
            let spec = ServerSpec {
                which: which.clone(),
                options: vec![option.to_owned()],
                ..ServerSpec::default()
            };
            Server::start(&home, &spec, &|line| println!("{line}")).await.unwrap()
        };
        let servers = [start(POOLS[0]).await, start(POOLS[1]).await];
        let folder = tempfile::tempdir().unwrap();
        let sockets = [servers[0].socket(), servers[1].socket()];
        let proxy = Proxy::start(&folder.path().join("proxy.sock"), sockets, shares).unwrap();
        Self { servers, proxy, _folder: folder }
    }

    fn target(&self) -> Target {
        let mut target = Target::new(Endpoint::Socket(self.proxy.socket().to_owned()), "root");
        target.limits = Limits { connect: PATIENCE, query: PATIENCE };
        target
    }

    /// What a sample of the first server has.
    async fn pages_of_first(&self) -> f64 {
        let [first, second] = [pages(&self.servers[0]).await, pages(&self.servers[1]).await];
        assert!(first > second * 1.5, "{first} {second}");
        first
    }
}

async fn pages(server: &Server) -> f64 {
    let mut conn = server.connect().await.unwrap();
    let question = format!("SHOW GLOBAL STATUS LIKE '{PAGES}'");
    let row: Option<(String, String)> = conn.query_first(question).await.unwrap();
    conn.disconnect().await.unwrap();
    row.unwrap().1.parse().unwrap()
}

fn seen(sample: &ServerSample) -> Option<f64> {
    sample.status.value()?.number(PAGES)
}

/// Six seconds without the host. `sampled` gets the session's number when a sample was taken.
async fn window(two: &Two, mut sampled: impl FnMut(usize, u64)) -> Window {
    let host = HostChoice::None { because: Unavailable::because("this test reads the servers only") };
    let options = WatchOptions { host, ..WatchOptions::lasting(Duration::from_secs(6)) };
    let mut session = 0;
    let mut progress = |progress| match progress {
        Progress::Connected { server } => session = server.own_connection_id.unwrap_or_default(),
        Progress::Sampled { number, .. } => sampled(number, session),
        _ => {}
    };
    watch(&two.target(), &options, &mut progress).await.unwrap()
}

/// Every sample with an answer is the first server's; why the others have none.
async fn is_of_the_first_alone(two: &Two, window: &Window) -> Vec<String> {
    let first = two.pages_of_first().await;
    let found: Vec<Option<f64>> = window.samples.iter().map(|sample| seen(&sample.server)).collect();
    assert!(found.iter().flatten().all(|pages| *pages == first), "{found:?}, not all {first}");
    assert_eq!(found[0], Some(first), "the window began with it");
    let unavailable = window.samples.iter().filter_map(|sample| sample.server.status.unavailable());
    unavailable.map(|why| why.because.clone()).collect()
}

async fn is_refused(which: Which) {
    let two = Two::start(which, Shares::Statements).await;
    let target = two.target();
    let error = Session::connect(&target, &target.limits).await.unwrap_err();
    assert!(matches!(error, ConnectError::Proxy { .. }), "{error:?}");
    let line = error.to_string();
    assert!(line.contains("is a proxy (it greets as connection 1000000") && !line.contains('\n'), "{line}");
    assert!(error.is_refusal() && !error.is_wrong_password());
}

#[tokio::test]
async fn a_proxy_that_shares_statements_between_mysql_servers_is_refused_in_one_line() {
    is_refused(Which::Mysql).await;
}

#[tokio::test]
async fn a_proxy_that_shares_statements_between_mariadb_servers_is_refused_in_one_line() {
    is_refused(Which::Mariadb).await;
}

/// The session is lost in the middle, and the address then leads to the other server first.
async fn a_window_waits_for_its_own_server(which: Which) {
    let two = Two::start(which, Shares::Connections).await;
    let mut killer = two.servers[0].connect().await.unwrap();
    let (kill, wanted) = tokio::sync::oneshot::channel::<u64>();
    let killed = tokio::spawn(async move {
        let id = wanted.await.unwrap();
        killer.query_drop(format!("KILL {id}")).await.unwrap();
    });
    let mut kill = Some(kill);
    let window = window(&two, |number, session| {
        if number == 2
            && let Some(kill) = kill.take()
        {
            kill.send(session).unwrap();
        }
    })
    .await;
    killed.await.unwrap();
    let why = is_of_the_first_alone(&two, &window).await;
    assert!(why.iter().any(|why| why.contains("connect to one of them by its own address")), "{why:?}");
    assert!(two.proxy.connections() >= 3, "its own server, the other, its own again");
    assert!(seen(&window.samples.last().unwrap().server).is_some(), "it goes on with its own: {why:?}");
}

#[tokio::test]
async fn a_window_of_mysql_waits_for_its_own_server_where_the_address_leads_to_another() {
    a_window_waits_for_its_own_server(Which::Mysql).await;
}

#[tokio::test]
async fn a_window_of_mariadb_waits_for_its_own_server_where_the_address_leads_to_another() {
    a_window_waits_for_its_own_server(Which::Mariadb).await;
}

/// More statements than a session's first sample takes, and fewer than those of two.
const MOVES_AFTER: u32 = 40;

async fn a_session_that_moves_is_given_up(which: Which) {
    let two = Two::start(which, Shares::After(MOVES_AFTER)).await;
    let window = window(&two, |_, _| ()).await;
    let why = is_of_the_first_alone(&two, &window).await;
    assert!(why.iter().any(|why| why.starts_with("this is the server ")), "{why:?}");
}

#[tokio::test]
async fn a_session_of_mysql_that_goes_on_with_another_server_is_given_up_with_what_it_said() {
    a_session_that_moves_is_given_up(Which::Mysql).await;
}

#[tokio::test]
async fn a_session_of_mariadb_that_goes_on_with_another_server_is_given_up_with_what_it_said() {
    a_session_that_moves_is_given_up(Which::Mariadb).await;
}

/// The numbers of the other connections that a server has.
async fn others(conn: &mut Conn) -> BTreeSet<u64> {
    const CLIENTS: &str =
        "SELECT ID FROM information_schema.PROCESSLIST WHERE USER = 'root' AND ID <> CONNECTION_ID()";
    let ids: Vec<u64> = conn.query(CLIENTS).await.unwrap();
    ids.into_iter().collect()
}

/// Sampler and probe have a connection each: both with one server, and with the other once the sampler's leads there.
#[tokio::test]
async fn sampler_and_probe_are_with_one_server_and_move_to_another_together() {
    let two = Two::start(Which::Mysql, Shares::Connections).await;
    let mut looking = [two.servers[0].connect().await.unwrap(), two.servers[1].connect().await.unwrap()];
    let host = HostChoice::None { because: Unavailable::because("this test reads the servers only") };
    let mut follower = Follower::start(two.target(), FollowOptions { host, ..FollowOptions::default() });
    let begun = Instant::now();
    let mut killed = BTreeSet::new();
    loop {
        let followed = tokio::time::timeout(PATIENCE, follower.next()).await.unwrap().unwrap();
        let Followed::Sample(_) = followed else { continue };
        let [first, second] = [others(&mut looking[0]).await, others(&mut looking[1]).await];
        assert!(begun.elapsed() < PATIENCE, "{first:?} {second:?}");
        let are_together = first.len().max(second.len()) == 2 && first.len().min(second.len()) == 0;
        // Of two connections in a row one leads to the wrong server, and is given up.
        if !are_together || !first.is_disjoint(&killed) {
            continue;
        }
        if !killed.is_empty() {
            break;
        }
        assert_eq!(first.len(), 2, "the first connection led to the first server");
        for id in &first {
            looking[0].query_drop(format!("KILL {id}")).await.unwrap();
        }
        killed = first;
    }
    follower.finish().await;
}
