//! The results of the logins with one account, so that spindoctor does not lock the account.
//!
//! A server may lock an account after one to three wrong passwords (`FAILED_LOGIN_ATTEMPTS`, MySQL 8.0.19;
//! `max_password_errors`, MariaDB 10.4), and so every try counts. All connections of one [`Target`](super::Target) and
//! of its clones share one [`Logins`]: one login at a time, none for [`WAIT`] after a refusal, and a password that was
//! refused twice in a row is not sent again. Errors that may pass by themselves (the server is down, full or silent) do
//! not count.
//!
//! They share what the server has not answered, too: it works at a question, or at a login, until it is done, whether or not
//! somebody waits for it. So a connection that was given up is kept until something comes, and while
//! [`MOST_UNANSWERED`] are kept no other is made: a server that hangs is not filled with connections of ours.
//!
//! They share the account's own limit of connections, too: a caller that keeps several leaves room for others.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use spindoctor_wire::connection::Connection;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::error::ConnectError;

/// After a refusal nothing is tried for so long: what a person has to mend is not mended sooner, and three tries that would
/// lock an account are not made within minutes.
pub const WAIT: Duration = Duration::from_mins(10);

/// So often in a row one password may be refused. `FAILED_LOGIN_ATTEMPTS` is rarely below 3.
pub const PASSWORD_TRIES: u32 = 2;

/// So many connections are left to others where the account has a limit (`MAX_USER_CONNECTIONS`): one for `doctor`, two for
/// `top`.
pub const LEFT_TO_OTHERS: u64 = 3;

/// So many questions and logins of one target may be without an answer, after their deadlines, before nothing more is tried: as many
/// as a window of ten seconds loses at two seconds each. Until then what still answers is asked: a server whose lists hang says what
/// its counters are. Chosen.
pub const MOST_UNANSWERED: usize = 5;

/// The logins with one account.
#[derive(Debug, Clone, Default)]
pub struct Logins(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// One login at a time.
    turn: tokio::sync::Mutex<()>,
    state: Mutex<State>,
    /// The account's limit, once a session has said it.
    limit: watch::Sender<Option<Limit>>,
    /// Connections that were given up, and of which nothing has come since.
    unanswered: Arc<watch::Sender<usize>>,
}

/// A connection that was given up, for as long as nothing comes.
struct OneUnanswered(Arc<watch::Sender<usize>>);

impl OneUnanswered {
    fn counted_in(all: &Arc<watch::Sender<usize>>) -> Self {
        all.send_modify(|count| *count += 1);
        Self(Arc::clone(all))
    }
}

impl Drop for OneUnanswered {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

#[derive(Debug, Default)]
struct State {
    has_worked: bool,
    refused: Option<Refused>,
}

#[derive(Debug, Clone)]
struct Refused {
    error: ConnectError,
    at: Instant,
    /// Refusals in a row that a server may count against the account.
    wrong_passwords: u32,
}

/// How many connections the account may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// As many as the server has.
    None,
    /// This many (`MAX_USER_CONNECTIONS` of the account, or `max_user_connections` of the server).
    Connections(u64),
}

impl Limit {
    /// How many of `wanted` connections one program may keep, so that there is room for others; at least one.
    pub fn room(self, wanted: u64) -> u64 {
        match self {
            Self::None => wanted,
            Self::Connections(most) => most.saturating_sub(LEFT_TO_OTHERS).clamp(1, wanted.max(1)),
        }
    }
}

/// When a refused login is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// After so long.
    In(Duration),
    /// Not with these credentials.
    Never,
}

/// Two targets are the same whatever became of their logins.
impl PartialEq for Logins {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Logins {}

impl Logins {
    /// Those of the same user with other credentials: what is remembered is only whether a login ever worked.
    #[must_use]
    pub fn renewed(&self) -> Self {
        let renewed =
            Self(Arc::new(Shared { unanswered: Arc::clone(&self.0.unanswered), ..Shared::default() }));
        renewed.state().has_worked = self.has_worked();
        renewed
    }

    /// True where a login has worked.
    pub fn has_worked(&self) -> bool {
        self.state().has_worked
    }

    /// When the login is tried again that was refused; none where it was not.
    pub fn again(&self) -> Option<Again> {
        self.state().refused.as_ref().map(Refused::again)
    }

    /// The account's limit of connections; none before a session has said it.
    pub fn limit(&self) -> Option<Limit> {
        *self.0.limit.borrow()
    }

    /// A session has said the account's limit: 0 is none.
    pub fn set_limit(&self, connections: Option<u64>) {
        let limit = match connections {
            None | Some(0) => Limit::None,
            Some(most) => Limit::Connections(most),
        };
        self.0.limit.send_replace(Some(limit));
    }

    /// Waits until a session has said the account's limit.
    pub async fn limited(&self) -> Limit {
        let mut limit = self.0.limit.subscribe();
        match limit.wait_for(Option::is_some).await {
            Ok(limit) => limit.unwrap_or(Limit::None),
            // It cannot be closed: this is one of its senders.
            Err(_) => Limit::None,
        }
    }

    /// How many questions and logins were given up and have no answer yet.
    pub fn unanswered(&self) -> usize {
        *self.0.unanswered.borrow()
    }

    /// Waits until fewer than [`MOST_UNANSWERED`] are.
    pub(super) async fn have_room(&self) {
        // It cannot be closed: this is one of its senders.
        let _ = self.0.unanswered.subscribe().wait_for(|count| *count < MOST_UNANSWERED).await;
    }

    /// Keeps a connection whose answer was given up until something comes.
    pub(super) fn keep(&self, mut connection: Box<Connection>) {
        let one = OneUnanswered::counted_in(&self.0.unanswered);
        tokio::spawn(async move {
            connection.until_something_comes().await;
            drop(one);
        });
    }

    /// Has a login go on after its deadline, when nobody waits for it any more: the server does the same.
    pub(super) fn outlast<T: Send + 'static>(
        &self,
        deadline: Duration,
        login: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        let all = Arc::clone(&self.0.unanswered);
        tokio::spawn(async move {
            let mut login = std::pin::pin!(login);
            match timeout(deadline, &mut login).await {
                Ok(outcome) => outcome,
                Err(_) => {
                    let _one = OneUnanswered::counted_in(&all);
                    login.await
                }
            }
        })
    }

    /// Logs in with `open`, when it is this one's turn, and remembers what came of it.
    ///
    /// # Errors
    /// What `open` returns, or without a try the refusal of before.
    pub(super) async fn log_in<T>(
        &self,
        open: impl Future<Output = Result<T, ConnectError>>,
    ) -> Result<T, ConnectError> {
        let _turn = self.0.turn.lock().await;
        self.admit()?;
        let outcome = open.await;
        match &outcome {
            Ok(_) => self.worked(),
            Err(error) => self.failed(error),
        }
        outcome
    }

    fn admit(&self) -> Result<(), ConnectError> {
        match &self.state().refused {
            Some(refused) if refused.again() != Again::In(Duration::ZERO) => Err(refused.error.clone()),
            _ => Ok(()),
        }
    }

    fn worked(&self) {
        let mut state = self.state();
        (state.has_worked, state.refused) = (true, None);
    }

    fn failed(&self, error: &ConnectError) {
        if !error.is_refusal() {
            return;
        }
        let mut state = self.state();
        let before = state.refused.as_ref().map_or(0, |refused| refused.wrong_passwords);
        let wrong_passwords = before + u32::from(error.is_wrong_password());
        state.refused = Some(Refused { error: error.clone(), at: Instant::now(), wrong_passwords });
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Refused {
    fn again(&self) -> Again {
        if self.wrong_passwords >= PASSWORD_TRIES {
            return Again::Never;
        }
        Again::In(WAIT.saturating_sub(self.at.elapsed()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn denied(code: u16) -> ConnectError {
        ConnectError::Denied { address: "db17:3306".to_owned(), code, message: "no".to_owned() }
    }

    /// The refusal was so long ago.
    fn passes(logins: &Logins, time: Duration) {
        let mut state = logins.state();
        let refused = state.refused.as_mut().unwrap();
        refused.at = refused.at.checked_sub(time).unwrap();
    }

    async fn outcome(logins: &Logins, tries: &AtomicU32, outcome: Result<(), ConnectError>) -> bool {
        let open = async {
            tries.fetch_add(1, Ordering::Relaxed);
            outcome
        };
        logins.log_in(open).await.is_ok()
    }

    #[tokio::test]
    async fn a_wrong_password_is_sent_twice_at_most() {
        let (logins, tries) = (Logins::default(), AtomicU32::new(0));
        for _ in 0..50 {
            assert!(!outcome(&logins.clone(), &tries, Err(denied(1045))).await);
        }
        assert_eq!(tries.load(Ordering::Relaxed), 1);
        assert!(matches!(logins.again(), Some(Again::In(wait)) if wait > WAIT / 2), "{:?}", logins.again());
        passes(&logins, WAIT);
        assert!(!outcome(&logins, &tries, Err(denied(1045))).await);
        passes(&logins, WAIT * 100);
        assert!(!outcome(&logins, &tries, Ok(())).await);
        assert_eq!((tries.load(Ordering::Relaxed), logins.again()), (2, Some(Again::Never)));
        assert!(outcome(&logins.renewed(), &tries, Ok(())).await, "other credentials are tried");
    }

    #[tokio::test]
    async fn a_locked_account_and_an_expired_password_are_tried_every_ten_minutes() {
        for code in [1820, 1862, 3118, 3955, 4150, 4151] {
            let (logins, tries) = (Logins::default(), AtomicU32::new(0));
            for _ in 0..9 {
                assert!(!outcome(&logins, &tries, Err(denied(code))).await);
                passes(&logins, WAIT / 3);
            }
            assert_eq!(tries.load(Ordering::Relaxed), 3, "{code}");
            passes(&logins, WAIT);
            assert!(outcome(&logins, &tries, Ok(())).await && logins.again().is_none(), "{code}");
        }
    }

    #[tokio::test]
    async fn logins_follow_each_other_so_that_three_that_begin_at_once_send_one_wrong_password() {
        let (logins, tries) = (Logins::default(), AtomicU32::new(0));
        let slow = || async {
            let open = async {
                tries.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                Err::<(), _>(denied(1045))
            };
            logins.log_in(open).await
        };
        let (one, two, three) = tokio::join!(slow(), slow(), slow());
        assert!(one.is_err() && two.is_err() && three.is_err());
        assert_eq!(tries.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn a_server_that_is_down_or_full_is_tried_as_often_as_before() {
        let (logins, tries) = (Logins::default(), AtomicU32::new(0));
        let address = || "db17:3306".to_owned();
        for error in [
            ConnectError::Refused { address: address() },
            ConnectError::TooManyConnections { address: address(), message: String::new() },
            ConnectError::AccountLimit { address: address(), message: String::new() },
            ConnectError::Silent { address: address(), after: WAIT },
            ConnectError::Server { address: address(), code: 1053, message: String::new() },
        ] {
            assert!(!outcome(&logins, &tries, Err(error)).await);
        }
        assert_eq!((tries.load(Ordering::Relaxed), logins.again()), (5, None));
        assert!(!logins.has_worked());
    }

    #[test]
    fn who_keeps_several_connections_leaves_room_and_keeps_one_at_least() {
        let room = |most| Limit::Connections(most).room(3);
        assert_eq!([1, 2, 3, 4, 5, 6, 100].map(room), [1, 1, 1, 1, 2, 3, 3]);
        assert_eq!(Limit::None.room(3), 3);
    }
}
