//! Servers of the lab: started for a test, and gone with it.

use std::process::Output;

use spindoctor_lab::{Home, Server, ServerSpec, Which};
use tokio::runtime::{Builder, Runtime};

use crate::program::spindoctor;

/// A runtime on the thread of the test.
pub(crate) fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// A runtime with a thread of its own: sessions that it runs go on while the test looks at their server.
pub(crate) fn runtime_beside() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}

/// Does something on a runtime of its own.
pub(crate) fn in_runtime<T>(work: impl Future<Output = T>) -> T {
    runtime().block_on(work)
}

/// A server that ends with the thread that started it.
pub(crate) async fn start(spec: &ServerSpec) -> Server {
    let home = Home::open().expect("the lab has a folder");
    Server::start(&home, spec, &|_| {}).await.expect("a server")
}

/// Does something with a server as the lab makes it.
pub(crate) fn with_server(which: Which, look: impl FnOnce(&Server)) {
    let spec = ServerSpec { which, ..ServerSpec::default() };
    look(&in_runtime(start(&spec)));
}

/// Does the same with a MySQL and with a MariaDB, both at once: what waits, for the most part, costs no more time for two.
pub(crate) fn on_both(look: impl Fn(Which) + Sync) {
    std::thread::scope(|scope| {
        let other = scope.spawn(|| look(Which::Mariadb));
        look(Which::Mysql);
        if let Err(panic) = other.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

/// The program as it needs to be for commands that start servers of the lab.
pub(crate) fn with_lab(line: &str) -> assert_cmd::Command {
    let home = Home::open().expect("the lab has a folder");
    let mut command = spindoctor(line);
    command.env("SPINDOCTOR_LAB", home.root()).env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}

/// What a command of the program does while a scenario of the lab makes a server suffer, to which it connects as `root`.
pub(crate) fn during(scenario: &str, server: &str, line: &str) -> Output {
    let program = spindoctor("").get_program().to_string_lossy().into_owned();
    let asked = format!(
        "lab run {scenario} --server {server} -- {program} {line} -u root -S {{socket}} --no-defaults"
    );
    with_lab(&asked).output().expect("the program runs")
}
