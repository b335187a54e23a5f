// Reads a JSON array of cards from standard input and prints the errors that Microsoft's renderer finds in each.
const { AdaptiveCard, SerializationContext, ValidationEvent, Versions } = require('adaptivecards/dist/adaptivecards.js');

const findings = (json) => {
  const [version, card] = [Versions[`v${json.version.replace('.', '_')}`], new AdaptiveCard()];
  const context = new SerializationContext(version);
  card.parse(json, context);
  const events = [...Array(context.eventCount).keys()].map((at) => context.getEventAt(at));
  const found = events.map(({ event, message }) => `${ValidationEvent[event]}: ${message}`);
  found.push(...card.validateProperties().validationEvents.map(({ message }) => message));
  if (card.getItemCount() !== json.body.length) found.push(`${card.getItemCount()} of ${json.body.length} blocks are shown`);
  return found;
};
console.log(JSON.stringify(JSON.parse(require('fs').readFileSync(0, 'utf8')).map(findings)));
