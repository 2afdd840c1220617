/** HTML and XML as a stream of events, in time that grows with their length alone. */
import { type Handler, Parser } from 'htmlparser2'

/** The parser's time grows with the square of the depth; no honest document comes near. */
const maxDepth = 2000
const chunkLength = 1024 * 1024

/** From `maxDepth` on, elements have no inside: what follows is still read, as if it were flat. */
class ShallowParser extends Parser {
  protected override isVoidElement(name: string): boolean {
    return (this as unknown as { stack: readonly string[] }).stack.length >= maxDepth || super.isVoidElement(name)
  }
}

/** Parses to the end, or until `isEnough()`. */
export function parseMarkup(text: string, handler: Partial<Handler>, xmlMode: boolean, isEnough: () => boolean = () => false): void {
  const parser = new ShallowParser(handler, { xmlMode, decodeEntities: true })
  for (let at = 0; at < text.length && !isEnough(); at += chunkLength) parser.write(text.slice(at, at + chunkLength))
  parser.end()
}
