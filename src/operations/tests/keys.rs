//! Limits on keys.

use super::*;

#[test]
fn a_project_has_at_most_a_thousand_keys() {
    let service = EngineFixture::new();
    let project = service.project("one");
    let make = || {
        service.run(super::super::key::create(
            &service.handle,
            project.id,
            KeyAccess::Ping,
            KeyLabel::default(),
        ))
    };
    let first = make().unwrap().0;
    (1..1000).for_each(|_| _ = make().unwrap());
    assert_eq!(
        refused(make()),
        "the project has 1,000 keys, which is the maximum; `key revoke` removes one"
    );
    service
        .run(super::super::key::revoke(&service.handle, first.0))
        .unwrap();
    assert!(make().is_ok());
}
