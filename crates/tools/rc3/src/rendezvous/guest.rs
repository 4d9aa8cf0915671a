//! The sender at a rendezvous: comes with a code, and connects to the receiver.

use std::net::SocketAddr;

use super::{
    code::{Code, Place},
    message::{Candidates, FromParty, FromRendezvous, Offer},
    secret::{Exchange, Role},
    visit::{Relaying, Visit, showing},
};
use crate::{
    error::{Error, ErrorKind, Result},
    transfer::{
        direct::{Direct, Met},
        mapping::Mapping,
        meet::Settings,
        ticket::{Fingerprint, Secret},
    },
};

/// The receiver, met.
pub(crate) struct Arrived {
    pub(crate) met: Met,
    pub(crate) mapping: Mapping,
    /// If the way is through the relay.
    pub(crate) relayed: Option<Relayed>,
}

/// A room that must stay, since the relay belongs to it.
pub(crate) struct Relayed {
    visit: Visit,
    relaying: Relaying,
}

impl Relayed {
    /// Keeps the way open. Returns why it has ended.
    pub(crate) async fn keep(mut self) -> Error {
        let heard = async {
            loop {
                if let Err(error) = self.visit.hear().await {
                    return error;
                }
            }
        };
        tokio::select! {
            error = heard => error,
            never = showing(Some(&self.relaying)) => never,
        }
    }
}

/// Meets the receiver whose code this is.
///
/// # Errors
/// Of the kinds `Refused` if the code is wrong, `NoUdp` if no datagram reaches the receiver, and those of the rendezvous.
pub(crate) async fn arrive(code: &Code, place: &Place, settings: &Settings) -> Result<Arrived> {
    let direct = Direct::open(&settings.network)?;
    let mapping = Mapping::ask(&direct.endpoint, &settings.network);
    let (exchange, message) = Exchange::begin(Role::Guest, code.number, &code.words);
    let mut visit = Visit::begin(&direct.endpoint, place, &FromParty::Join(code.number), settings).await?;
    visit.say(FromParty::Say(message.into())).await;
    let FromRendezvous::Joined { seen, relay, .. } = visit.hear_soon("the rendezvous").await? else {
        return Err(Error::protocol("a message before the host"));
    };
    let relaying = relay.map(|pass| visit.relay(pass, settings)).transpose()?;
    let at = relaying.as_ref().map(|relaying| relaying.at);
    let meeting = async {
        let sealing = exchange.finish(&visit.said_soon().await?)?;
        let ends: Candidates = visit.candidates(seen, &mapping.mapped())?;
        visit.say(FromParty::Say(sealing.seal(&ends)?.into())).await;
        let offer: Offer = sealing.open(&visit.said_soon().await?)?;
        let addresses = offer.ends.addresses(visit.is_local());
        let trust = (Fingerprint(offer.fingerprint), Secret(offer.secret));
        direct.connect(&addresses, at, trust, true, settings, |tried| unreached(tried, at)).await
    };
    let met = tokio::select! {
        met = meeting => met,
        never = showing(relaying.as_ref()) => never,
    };
    let met = match met {
        Ok(met) => met,
        Err(error) => {
            visit.leave().await;
            return Err(error);
        }
    };
    let is_relayed = Some(met.control.connection.remote_address()) == at;
    let relayed = relaying.filter(|_| is_relayed).map(|relaying| Relayed { visit, relaying });
    Ok(Arrived { met, mapping, relayed })
}

/// No datagram passes.
fn unreached(tried: &[SocketAddr], relay: Option<SocketAddr>) -> Error {
    let tried = tried.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let hint = match relay {
        Some(_) => "a firewall may block UDP; let it pass the ports of the rendezvous",
        None => "use a rendezvous with a relay (`rc3 meet --relay`), or a network without symmetric NAT",
    };
    Error::new(ErrorKind::NoUdp, format!("UDP does not reach the receiver (tried {tried})"), hint)
}
