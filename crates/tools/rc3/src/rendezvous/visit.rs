//! The connection of either end to its rendezvous.

use std::{future::pending, net::SocketAddr, time::Duration};

use rc3_net::{Endpoint, RlpMode, VarInt};
use tokio::time::timeout;

use super::{
    code::Place,
    message::{ALPN, Candidates, FromParty, FromRendezvous, MESSAGE_BYTES_MAX, Pass, Why},
    rooms::UNUSED_MAX,
};
use crate::{
    error::{Error, ErrorKind, Result},
    transfer::{
        addresses::addresses_of,
        direct::failed,
        identity::client,
        mapping::Mapped,
        meet::{Settings, connect},
        punch::Punch,
        reachable::beyond_link,
        session::Channel,
    },
};

/// The command that runs there.
const COMMAND: &str = "rc3 meet";
/// Time for each message of the other end once it is there, and for the rendezvous.
const PATIENCE: Duration = Duration::from_secs(15);
/// Time for the last message to arrive.
const LEAVE_PATIENCE: Duration = Duration::from_secs(1);
/// Time between two packets that keep a NAT open; RFC 4787 §4.3 asks for two minutes, many forget sooner.
const ASK_EVERY: Duration = Duration::from_secs(10);
/// Time between two times that an end shows the relay its address, which may change.
pub(super) const SHOW_EVERY: Duration = Duration::from_secs(5);

/// Most bytes that the rendezvous may send ahead.
pub(super) const WINDOW: VarInt = VarInt::from_u32(16 << 10);

/// A connection with a room, which ends when it is dropped.
pub(super) struct Visit {
    endpoint: Endpoint,
    channel: Channel<FromParty, FromRendezvous>,
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.channel.connection.close(VarInt::from_u32(0), b"done");
    }
}

impl Visit {
    /// Connects from this endpoint, so that the rendezvous sees the address at which the other end may reach it, and says
    /// this. Nothing of the rendezvous is trusted.
    ///
    /// # Errors
    /// Of the kinds `Resolve`, `Connect`, `Busy`, `Stalled` and `Lost`.
    pub(super) async fn begin(
        endpoint: &Endpoint,
        place: &Place,
        first: &FromParty,
        settings: &Settings,
    ) -> Result<Self> {
        let found = addresses_of(&place.host, place.port).await.map_err(|error| {
            let message = format!("cannot find {}: {error}", place.host);
            Error::new(ErrorKind::Resolve, message, "check the host of the rendezvous: --meet or RC3_MEET")
        })?;
        let mut transport = settings.transport(0, 0)?;
        transport.rlp(RlpMode::Off).keep_alive_interval(Some(ASK_EVERY)).receive_window(WINDOW);
        transport.max_idle_timeout(UNUSED_MAX.try_into().ok());
        let control = connect(endpoint, &found, COMMAND, client(None, ALPN)?, transport, first).await?;
        let channel = Channel::new(MESSAGE_BYTES_MAX, control, PATIENCE);
        Ok(Self { endpoint: endpoint.clone(), channel })
    }

    /// Says something; a broken connection shows when hearing.
    pub(super) async fn say(&mut self, message: FromParty) {
        let _ = self.channel.say(&message).await;
    }

    /// Leaves, after what was said has arrived.
    pub(super) async fn leave(mut self) {
        let _ = timeout(LEAVE_PATIENCE, self.channel.finish()).await;
    }

    /// The next message.
    ///
    /// Cancel-safe: dropping the future loses nothing.
    ///
    /// # Errors
    /// When the room has ended, or the connection.
    pub(super) async fn hear(&mut self) -> Result<FromRendezvous> {
        match self.channel.hear().await? {
            FromRendezvous::Ended(why) => Err(over(why)),
            message => Ok(message),
        }
    }

    /// The next message, which should come soon.
    ///
    /// # Errors
    /// As [`Self::hear`], and `Stalled`.
    pub(super) async fn hear_soon(&mut self, who: &str) -> Result<FromRendezvous> {
        let heard = timeout(PATIENCE, self.hear()).await;
        heard.unwrap_or_else(|_| Err(Error::silent(who, "answer", PATIENCE)))
    }

    /// What the other end has said, which should come soon.
    pub(super) async fn said_soon(&mut self) -> Result<bytes::Bytes> {
        match self.hear_soon("the other end").await? {
            FromRendezvous::Said(text) => Ok(text),
            _ => Err(Error::protocol("a message out of turn")),
        }
    }

    /// Where this end may be reached.
    pub(super) fn candidates(&self, seen: SocketAddr, mapped: &Mapped) -> Result<Candidates> {
        let bound = self.endpoint.local_addr().map_err(failed)?;
        let own = beyond_link(bound.ip()).into_iter().map(|ip| SocketAddr::new(ip, bound.port()));
        Ok(Candidates([seen].into_iter().chain(mapped.now()).chain(own).collect()))
    }

    /// Whether both ends may be on the host of the rendezvous.
    pub(super) fn is_local(&self) -> bool {
        self.channel.connection.remote_address().ip().to_canonical().is_loopback()
    }

    /// The relay there, and how this end shows it its address.
    pub(super) fn relay(&self, pass: Pass, settings: &Settings) -> Result<Relaying> {
        let at = SocketAddr::new(self.channel.connection.remote_address().ip().to_canonical(), pass.port);
        Ok(Relaying { at, punch: Punch::new(settings)?.marked(&pass.token), endpoint: self.endpoint.clone() })
    }
}

/// The relay of a room, as an end uses it.
pub(super) struct Relaying {
    pub(super) at: SocketAddr,
    punch: Punch,
    endpoint: Endpoint,
}

/// Shows the relay where this end is, if there is one, again and again: it may change.
pub(super) async fn showing<T>(relaying: Option<&Relaying>) -> T {
    let Some(Relaying { at, punch, endpoint }) = relaying else { return pending().await };
    loop {
        let _showing = punch.begin(endpoint, *at);
        tokio::time::sleep(SHOW_EVERY).await;
    }
}

/// A room that has ended, or was not opened.
fn over(why: Why) -> Error {
    let (kind, message, hint) = match why {
        Why::Full => {
            (ErrorKind::Busy, "the rendezvous has no room left", "try again later, or use another --meet")
        }
        Why::NoSuchRoom => (
            ErrorKind::Refused,
            "the rendezvous does not know the code",
            "check its number, and that `rc3 recv` still waits there; each code allows one try",
        ),
        Why::Guesses => (
            ErrorKind::Refused,
            "the rendezvous refuses: too many codes from this address were wrong",
            "wait ten minutes",
        ),
        Why::Expired => (
            ErrorKind::Other,
            "the code was not used for ten minutes, and is void",
            "run `rc3 recv` again for a new one",
        ),
        Why::Left => (
            ErrorKind::Lost,
            "the other end has left",
            "check its terminal; then run both commands again, with a new code",
        ),
        Why::Nonsense => return Error::protocol("the rendezvous understands something else"),
    };
    Error::new(kind, message, hint)
}
