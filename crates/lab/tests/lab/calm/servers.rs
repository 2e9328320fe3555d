//! Real servers: limits, load, and where their data goes.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "what tests share stands outside of #[test] functions"
)]

use std::path::Path;
use std::time::Duration;

use spindoctor_collect::gauges::read_host;
use spindoctor_collect::host::{Target, effective_cpus};
use spindoctor_lab::load::{LoadSpec, Tables, Workload, run_for};
use spindoctor_lab::{Data, Error, Home, Limits, Server, ServerSpec, Which, down, list, up};

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

async fn start(spec: &ServerSpec) -> Server {
    Server::start(&Home::open().unwrap(), spec, &|line| println!("{line}")).await.unwrap()
}

const TABLES: Tables = Tables { count: 4, rows: 10_000 };

#[test]
fn a_server_is_reached_by_its_socket_as_root_and_over_loopback_with_fewer_rights() {
    block_on(async {
        for which in [Which::Mysql, Which::Mariadb] {
            let server = start(&ServerSpec { which, ..ServerSpec::default() }).await;
            let user = server.ask("SELECT CURRENT_USER()").await.unwrap();
            assert_eq!(user.as_deref(), Some("root@localhost"));
            let over_tcp = |user: &'static str| {
                mysql_async::OptsBuilder::default()
                    .ip_or_hostname("127.0.0.1")
                    .tcp_port(server.port())
                    .prefer_socket(false)
                    .user(Some(user))
                    .pass(Some("spindoctor"))
            };
            let conn = mysql_async::Conn::new(over_tcp("spindoctor")).await.unwrap();
            conn.disconnect().await.unwrap();
            // With words that vary: for an account that it has not, MySQL asks by a plugin of its whim.
            assert!(mysql_async::Conn::new(over_tcp("root")).await.is_err());
            server.stop().unwrap();
        }
    });
}

#[test]
fn a_stopped_server_leaves_nothing() {
    block_on(async {
        let server = start(&ServerSpec::default()).await;
        let (data, socket, pid) = (server.data().to_owned(), server.socket().to_owned(), server.pid());
        assert!(data.join("ibdata1").exists() && socket.exists());
        drop(server);
        assert!(!data.exists() && !socket.exists());
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    });
}

#[test]
fn the_quota_and_the_cpus_of_a_server_are_those_that_the_kernel_names() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: control groups need root");
        return;
    }
    block_on(async {
        let limits = Limits { quota_cpus: Some(0.5), cpuset: Some("0".into()), ..Limits::default() };
        let server = start(&ServerSpec { limits, ..ServerSpec::default() }).await;
        let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
        assert!(status.contains("Cpus_allowed_list:\t0\n"), "{status}");
        // How busy that CPU is stands apart, where there are others.
        let host = read_host(&Target::live(server.pid()));
        let sum = host.cpu_times.value().unwrap().allowed.as_ref();
        let stat = std::fs::read_to_string("/proc/stat").unwrap();
        let has_others = effective_cpus::parse_stat_cpus(&stat).len() > 1;
        assert_eq!(sum.map(|sum| (sum.cpus.as_str(), sum.count)), has_others.then_some(("0", 1)));
        let group = server.group().unwrap();
        let quota = std::fs::read_to_string(group.join("cpu.max"))
            .or_else(|_| std::fs::read_to_string(group.join("cpu.cfs_quota_us")))
            .unwrap();
        assert_eq!(quota.split_whitespace().next(), Some("50000"));
        let members = std::fs::read_to_string(group.join("cgroup.procs")).unwrap();
        assert_eq!(members.trim(), server.pid().to_string());
        let group = group.to_owned();
        server.stop().unwrap();
        assert!(!group.exists());
    });
}

#[test]
fn sysbench_loads_a_server_at_the_rate_asked_for() {
    block_on(async {
        let server = start(&ServerSpec { tables: Some(TABLES), ..ServerSpec::default() }).await;
        let spec = LoadSpec { workload: Workload::OltpReadWrite, threads: 4, rate: Some(40), tables: TABLES };
        let report = run_for(server.socket(), spec, Duration::from_secs(2)).await.unwrap();
        assert!(report.transactions_per_s > 0.0 && report.latency_p95_ms.is_some(), "{report:?}");
        let queries = report.queries_per_s / report.transactions_per_s;
        assert!((19.0..21.0).contains(&queries), "oltp_read_write has 20 queries, not {queries}");
    });
}

#[test]
fn data_goes_where_it_is_asked_to() {
    let folder = tempfile::tempdir().unwrap();
    block_on(async {
        let spec = ServerSpec { data: Data::In(folder.path().to_owned()), ..ServerSpec::default() };
        let server = start(&spec).await;
        assert!(server.data().starts_with(folder.path().canonicalize().unwrap()));
        server.stop().unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    });
}

#[test]
fn a_server_that_is_up_stays_until_it_is_taken_down() {
    let home = Home::open().unwrap();
    let name = format!("stays-{}", std::process::id());
    let spec = ServerSpec { name: Some(name.clone()), which: Which::Mariadb, ..ServerSpec::default() };
    let listed = block_on(up(&home, &spec, &|_| {})).unwrap();
    // The runtime and the thread that started it are gone; a second of the same name is refused.
    let taken = block_on(up(&home, &spec, &|_| {})).unwrap_err();
    assert!(matches!(taken, Error::Taken(_)), "{taken}");
    assert_eq!(list(&home).unwrap().iter().find(|server| server.name == name), Some(&listed));
    down(&home, &name).unwrap();
    assert!(!listed.data.exists());
    assert!(matches!(down(&home, &name), Err(Error::NotUp(_))));
}

#[test]
fn a_server_that_cannot_start_says_why_and_leaves_nothing() {
    let home = Home::open().unwrap();
    let name = format!("broken-{}", std::process::id());
    let spec = ServerSpec {
        name: Some(name.clone()),
        options: vec!["--no-such-option".into()],
        ..ServerSpec::default()
    };
    let error = block_on(Server::start(&home, &spec, &|_| {})).unwrap_err().to_string();
    assert!(error.contains("no-such-option"), "{error}");
    assert!(list(&home).unwrap().iter().all(|server| server.name != name));
}

#[test]
fn a_folder_without_a_server_is_refused_with_what_was_looked_for() {
    let folder = tempfile::tempdir().unwrap();
    let spec = ServerSpec { which: Which::Basedir(folder.path().to_owned()), ..ServerSpec::default() };
    let error = block_on(Server::start(&Home::open().unwrap(), &spec, &|_| {})).unwrap_err().to_string();
    assert!(error.contains("bin/mysqld") && error.contains("--basedir"), "{error}");
}
