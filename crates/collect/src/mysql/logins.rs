//! The results of the logins with one account, so that spindoctor does not lock the account.
//!
//! A server may lock an account after one to three wrong passwords (`FAILED_LOGIN_ATTEMPTS`, MySQL 8.0.19;
//! `max_password_errors`, MariaDB 10.4), and so every try counts. All connections of one [`Target`](super::Target) and
//! of its clones share one [`Logins`]: one login at a time, none for [`WAIT`] after a refusal, and a password that was
//! refused twice in a row is not sent again. Errors that may pass by themselves (the server is down, full or silent) do
//! not count.
//!
//! They share what the server has not answered (`unanswered::Unanswered`), too.
//!
//! They share the account's own limit of connections, too: a caller that keeps several leaves room for others. And they share which
//! server they lead to (`one_server::OneServer`).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::time::timeout_at;

use super::error::ConnectError;
use super::one_server::OneServer;
use super::unanswered::Unanswered;

/// After a refusal nothing is tried for so long: what a person has to mend is not mended sooner, and three tries that would
/// lock an account are not made within minutes.
pub const WAIT: Duration = Duration::from_mins(10);

/// So often in a row one password may be refused. `FAILED_LOGIN_ATTEMPTS` is rarely below 3.
pub const PASSWORD_TRIES: u32 = 2;

/// So many connections are left to others where the account has a limit (`MAX_USER_CONNECTIONS`): one for `doctor`, two for
/// `top`.
pub const LEFT_TO_OTHERS: u64 = 3;

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
    /// What those who read gave up.
    readers: Unanswered,
    /// What those who write gave up. Apart, so that old values are given back though no list is answered.
    writers: Unanswered,
    /// The server of all of them.
    server: OneServer,
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
        let Shared { readers, writers, server, .. } = &*self.0;
        let (readers, writers, server) = (readers.clone(), writers.clone(), server.clone());
        let renewed = Self(Arc::new(Shared { readers, writers, server, ..Shared::default() }));
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

    /// The server that all connections must lead to.
    pub fn server(&self) -> &OneServer {
        &self.0.server
    }

    /// What those who read gave up.
    pub(super) fn readers(&self) -> &Unanswered {
        &self.0.readers
    }

    /// What those who write gave up.
    pub(super) fn writers(&self) -> &Unanswered {
        &self.0.writers
    }

    /// Logs in with `open`, when it is this one's turn, and remembers what came of it. Nobody waits after `by`: a turn that
    /// comes later is not taken, and a login that is not over goes on, counted as unanswered. Others may try meanwhile where a
    /// login has worked: its password is no wrong one.
    ///
    /// # Errors
    /// What `open` returns, or without a try the refusal of before; `late` where nobody waits any more.
    pub(super) async fn log_in<T>(
        &self,
        by: Instant,
        late: ConnectError,
        open: impl Future<Output = Result<T, ConnectError>>,
    ) -> Result<T, ConnectError> {
        let Ok(turn) = timeout_at(by.into(), self.0.turn.lock()).await else { return Err(late) };
        self.admit()?;
        let mut turn = Some(turn);
        let is_late = || {
            if self.has_worked() {
                turn = None;
            }
        };
        let outcome = self.readers().outlast(by, open, is_late).await.unwrap_or(Err(late));
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

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    fn late() -> ConnectError {
        ConnectError::Silent { address: "db17:3306".to_owned(), after: WAIT }
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
        logins.log_in(soon(), late(), open).await.is_ok()
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
            logins.log_in(soon(), late(), open).await
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

    /// One login hangs: where a password has worked the next one is made all the same, and where none has it waits.
    #[tokio::test]
    async fn a_login_that_hangs_keeps_others_waiting_only_where_none_has_worked() {
        for has_worked in [false, true] {
            let (logins, tries) = (Logins::default(), AtomicU32::new(0));
            if has_worked {
                assert!(outcome(&logins, &tries, Ok(())).await);
            }
            let (end, is_over) = tokio::sync::oneshot::channel::<()>();
            let hanging = {
                let logins = logins.clone();
                tokio::spawn(async move {
                    let open = async { is_over.await.map_err(|_| late()) };
                    logins.log_in(Instant::now(), late(), open).await
                })
            };
            while logins.readers().count() == 0 {
                tokio::task::yield_now().await;
            }
            let by = Instant::now() + Duration::from_millis(50);
            let next = logins.log_in(by, late(), async { Ok(()) }).await;
            assert_eq!(next.is_ok(), has_worked, "{next:?}");
            // One whose turn did not come sent nothing.
            assert_eq!(logins.readers().count(), 1);
            end.send(()).unwrap();
            assert_eq!(hanging.await.unwrap(), Ok(()));
            assert_eq!(logins.readers().count(), 0);
            assert!(outcome(&logins, &tries, Ok(())).await);
        }
    }

    #[test]
    fn who_keeps_several_connections_leaves_room_and_keeps_one_at_least() {
        let room = |most| Limit::Connections(most).room(3);
        assert_eq!([1, 2, 3, 4, 5, 6, 100].map(room), [1, 1, 1, 1, 2, 3, 3]);
        assert_eq!(Limit::None.room(3), 3);
    }
}
