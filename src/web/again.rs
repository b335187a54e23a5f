//! A form that came from somebody whose session is over: what they typed waits on a page until they have signed in again.

use askama::Template;

use super::Site;
use super::answer::Html;
use super::form::Form;
use super::frame::Frame;
use crate::wire::reply::Fault;

/// Fields that are typed again: nobody sends a password back.
const TYPED_AGAIN: [&str; 2] = ["password", "new"];

#[derive(Template)]
#[template(path = "again.html", config = "src/web/askama.toml")]
struct Again<'a> {
    frame: Frame,
    /// Where the form goes.
    path: &'a str,
    fields: Vec<(&'a str, &'a str)>,
}

/// The page; `path` is where the form was sent.
pub(super) fn page(site: &Site, path: &str, form: &Form) -> Html {
    let fields = form.fields().0.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let fields = fields.filter(|(name, _)| !TYPED_AGAIN.contains(name)).collect();
    Html::of(&Again { frame: Frame::bare(site, "Signed out"), path, fields }).secret().with_fault(Fault::NotSignedIn)
}
