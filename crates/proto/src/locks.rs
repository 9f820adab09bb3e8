//! Advisory locks: of our own programs, of children, and those that the home alone gives.

pub(crate) mod children;
pub(crate) mod delegations;
pub(crate) mod grace;
pub(crate) mod kept;
pub(crate) mod left;
pub(crate) mod mail;
pub(crate) mod relay;
pub(crate) mod requests;
pub(crate) mod rounds;
pub(crate) mod table;
pub(crate) mod taken_along;
pub(crate) mod vouched;
