//! The receiver at a rendezvous: has a room, and lets the one who knows the code reach it.

use std::net::SocketAddr;

use rc3_net::Endpoint;

use super::{
    code::{Code, Place, Words},
    message::{Candidates, FromParty, FromRendezvous, Offer},
    secret::{Exchange, Role},
    visit::{Visit, showing},
};
use crate::{
    error::{Error, Result},
    transfer::{mapping::Mapped, meet::Settings, punch::Punch, ticket::Trust},
};

/// A room that waits for its guest.
pub(crate) struct Host {
    visit: Visit,
    exchange: Exchange,
    code: Code,
    settings: Settings,
    /// What this host's gateway takes for it.
    mapped: Mapped,
}

impl Host {
    /// Opens a room from the endpoint that will take the sender's connection.
    ///
    /// # Errors
    /// When the rendezvous cannot be reached, or has no room.
    pub(crate) async fn open(
        endpoint: &Endpoint,
        place: &Place,
        settings: &Settings,
        mapped: Mapped,
    ) -> Result<Self> {
        let mut visit = Visit::begin(endpoint, place, &FromParty::Open, settings).await?;
        let FromRendezvous::Opened { number } = visit.hear_soon("the rendezvous").await? else {
            return Err(Error::protocol("no room"));
        };
        let words = Words::random()?;
        let (exchange, message) = Exchange::begin(Role::Host, number, &words);
        visit.say(FromParty::Say(message.into())).await;
        let code = Code { number, words, place: Some(place.clone()) };
        Ok(Self { visit, exchange, code, settings: settings.clone(), mapped })
    }

    /// What the user of the other end types.
    pub(crate) fn code(&self) -> &Code {
        &self.code
    }

    /// Gives a guest who knows the words what is in a ticket, and opens this host's NAT for it. Ends when the room does:
    /// before trust with the reason, afterwards with the address of the relay, if the guest may have used it.
    pub(crate) async fn run(self, endpoint: &Endpoint, trust: Trust) -> Result<Option<SocketAddr>> {
        let Self { mut visit, exchange, settings, mapped, .. } = self;
        let outcome = attend(&mut visit, exchange, (endpoint, &mapped), trust, &settings).await;
        visit.leave().await;
        outcome
    }
}

/// Meets the guest, and stays until the room ends.
async fn attend(
    visit: &mut Visit,
    exchange: Exchange,
    (endpoint, mapped): (&Endpoint, &Mapped),
    (fingerprint, secret): Trust,
    settings: &Settings,
) -> Result<Option<SocketAddr>> {
    let FromRendezvous::Joined { seen, guest, relay } = visit.hear().await? else {
        return Err(Error::protocol("a message before the guest"));
    };
    let (punch, is_local) = (Punch::new(settings)?, visit.is_local());
    // At once: packets of the guest come in only afterwards.
    let guest = guest.map(|seen| Candidates(vec![seen]).addresses(is_local));
    let guest = guest.unwrap_or_default();
    let mut punching: Vec<_> = guest.iter().filter_map(|to| punch.begin(endpoint, *to)).collect();
    let relaying = relay.map(|pass| visit.relay(pass, settings)).transpose()?;
    let at = relaying.as_ref().map(|relaying| relaying.at);
    let talk = async {
        let sealing = exchange.finish(&visit.said_soon().await?)?;
        let ends = visit.candidates(seen, mapped)?;
        let offer = sealing.seal(&Offer { fingerprint: fingerprint.0, secret: secret.0, ends })?;
        visit.say(FromParty::Say(offer.into())).await;
        let ends: Candidates = sealing.open(&visit.said_soon().await?)?;
        visit.say(FromParty::Trusted).await;
        let others = ends.addresses(is_local).into_iter().filter(|to| !guest.contains(to));
        punching.extend(others.filter_map(|to| punch.begin(endpoint, to)));
        // The guest leaves when it needs the room no more.
        while visit.hear().await.is_ok() {}
        Ok(at)
    };
    tokio::select! {
        met = talk => met,
        never = showing(relaying.as_ref()) => never,
    }
}
