//! Gives each server its turn: a task for each on the runtime of the caller, no thread, within the limits.
//!
//! What the tasks do is theirs; a server that hangs costs the others nothing but its place, until its task gives up.

use std::time::Instant;

use spindoctor_collect::mysql::{Endpoint, Target};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::schedule::{Limits, Pace, Schedule};

/// Servers without an outcome of their own.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Left {
    /// Those that were not begun with, in the order of the list.
    pub(crate) not_begun: Vec<usize>,
    /// Those whose task was ended in the middle.
    pub(crate) cut_short: Vec<usize>,
}

/// Runs a task for each of these servers, until all are done or `ended` is.
pub(crate) async fn all<F>(
    targets: &[Target],
    servers: &[usize],
    limits: &Limits,
    ended: impl Future<Output = ()>,
    task: impl Fn(usize) -> F,
) -> Left
where
    F: Future<Output = ()> + Send + 'static,
{
    let hosts = servers.iter().map(|&at| (at, host(&targets[at])));
    let mut schedule = Schedule::new(hosts, limits.per_host);
    let mut pace = Pace::new(limits.per_second);
    let mut tasks = JoinSet::new();
    let mut under_way = vec![false; targets.len()];
    let mut ended = std::pin::pin!(ended);
    loop {
        let may_begin = tasks.len() < limits.connections && schedule.may_begin();
        if !may_begin && tasks.is_empty() {
            break;
        }
        tokio::select! {
            biased;
            () = &mut ended => break,
            Some(done) = tasks.join_next(), if !tasks.is_empty() => {
                let server = done.unwrap_or_else(|error: tokio::task::JoinError| {
                    std::panic::resume_unwind(error.into_panic())
                });
                under_way[server] = false;
                schedule.end(server);
            }
            () = due(&pace), if may_begin => {
                if let Some(server) = schedule.begin() {
                    pace.begun(Instant::now());
                    under_way[server] = true;
                    let task = task(server);
                    tasks.spawn(async move {
                        task.await;
                        server
                    });
                }
            }
        }
    }
    tasks.abort_all();
    while let Some(done) = tasks.join_next().await {
        if let Ok(server) = done {
            under_way[server] = false;
        }
    }
    let cut_short = (0..under_way.len()).filter(|&server| under_way[server]).collect();
    Left { not_begun: schedule.left(), cut_short }
}

/// The host of a server, as far as connections to one host are counted.
pub(crate) fn host(target: &Target) -> &str {
    match &target.endpoint {
        Endpoint::Tcp { host, .. } => host,
        Endpoint::Socket(_) => "localhost",
    }
}

/// Waits until somebody stops it, or nobody listens any more.
pub(crate) async fn over(stop: &mut watch::Receiver<bool>, nobody_listens: impl Future<Output = ()>) {
    tokio::select! {
        () = stopped(stop) => {}
        () = nobody_listens => {}
    }
}

/// Waits until somebody stops it.
pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        // Nobody is left who could stop it.
        std::future::pending::<()>().await;
    }
}

async fn due(pace: &Pace) {
    if let Some(due) = pace.due() {
        tokio::time::sleep_until(due.into()).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use super::*;

    fn targets(count: usize) -> Vec<Target> {
        let of = |at| Endpoint::Tcp { host: format!("db{at}"), port: 3306 };
        (0..count).map(|at| Target::new(of(at), "app")).collect()
    }

    fn limits(connections: usize) -> Limits {
        let second = Duration::from_secs(1);
        Limits { connect: second, query: second, connections, per_host: 1, per_second: None, retries: 0 }
    }

    #[tokio::test]
    async fn everybody_has_a_turn_and_never_too_many_at_once() {
        let (now, most, done) =
            (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(0)), Arc::new(Mutex::new(vec![])));
        let servers: Vec<usize> = (0..9).collect();
        let left = all(&targets(9), &servers, &limits(3), std::future::pending(), |server| {
            let (now, most, done) = (now.clone(), most.clone(), done.clone());
            async move {
                let at_once = {
                    let mut now = now.lock().unwrap();
                    *now += 1;
                    *now
                };
                {
                    let mut most = most.lock().unwrap();
                    *most = at_once.max(*most);
                }
                tokio::task::yield_now().await;
                *now.lock().unwrap() -= 1;
                done.lock().unwrap().push(server);
            }
        })
        .await;
        assert_eq!((left, *most.lock().unwrap()), (Left::default(), 3));
        let mut done = done.lock().unwrap().clone();
        done.sort_unstable();
        assert_eq!(done, servers);
    }

    #[tokio::test]
    async fn who_was_stopped_is_distinguished_from_who_was_not_begun_with() {
        let ended = tokio::time::sleep(Duration::from_millis(50));
        let left = all(&targets(4), &[0, 1, 2, 3], &limits(2), ended, |server| async move {
            if server > 0 {
                std::future::pending::<()>().await;
            }
        })
        .await;
        assert_eq!(left, Left { not_begun: vec![3], cut_short: vec![1, 2] });
    }
}
