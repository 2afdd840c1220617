/** Namespaces of office documents: programs may declare any prefix for them. */

export interface XmlEvents {
  open?(name: string, attributes: Record<string, string>): void
  text?(text: string): void
  close?(name: string): void
}

/** Prefixes of Open XML by the end of the namespace, the same in its transitional and strict form (ECMA-376 parts 1 and 4). */
const openXml: Readonly<Record<string, string>> = {
  'wordprocessingml/main': 'w',
  'presentationml/main': 'p',
  'spreadsheetml/main': '',
  'drawingml/main': 'a',
  'drawingml/chart': 'c',
  'drawingml/wordprocessingDrawing': 'wp',
  'officeDocument/math': 'm',
  'officeDocument/relationships': 'r',
  'officeDocument/extended-properties': '',
  'officeDocument/extendedProperties': '',
  'officeDocument/custom-properties': '',
  'officeDocument/customProperties': '',
  'officeDocument/docPropsVTypes': 'vt',
  'package/relationships': '',
  'package/metadata/core-properties': 'cp',
  'markup-compatibility': 'mc',
}
const openDocument: Readonly<Record<string, string>> = { drawing: 'draw', container: '' }
const others = new Map([
  ['http://purl.org/dc/elements/1.1/', 'dc'],
  ['http://purl.org/dc/terms/', 'dcterms'],
  ['http://www.idpf.org/2007/opf', ''],
])

/** Returns the usual prefix of a namespace, undefined for an unknown one. */
function usualPrefix(namespace: string): string | undefined {
  const [, openXmlName] = /^http:\/\/(?:schemas\.openxmlformats\.org|purl\.oclc\.org\/ooxml)\/(.+)$/.exec(namespace) ?? []
  const key = openXmlName?.replace(/\/2006(?=\/|$)/, '')
  if (key !== undefined) return Object.hasOwn(openXml, key) ? openXml[key] : undefined
  const [, part] = /^urn:oasis:names:tc:opendocument:xmlns:([a-z]+)(?::1\.0)?$/.exec(namespace) ?? []
  if (part !== undefined) return Object.hasOwn(openDocument, part) ? openDocument[part] : part
  return others.get(namespace)
}

/** Returns whether the document declares another prefix for a known namespace than the usual one. */
export function declaresOtherPrefix(xml: string): boolean {
  for (const [, prefix = '', namespace = ''] of xml.matchAll(/xmlns(?::([\w.-]{1,50}))?\s*=\s*["']([^"'<>]{1,200})["']/g)) {
    const usual = usualPrefix(namespace)
    if (usual !== undefined && usual !== prefix) return true
  }
  return false
}

/** Usual prefixes by the declared ones. */
type Scope = ReadonlyMap<string, string>

/** Returns events that translate names, and call these. */
export function withUsualPrefixes({ open, text, close }: XmlEvents): XmlEvents {
  const scopes: Scope[] = [new Map()]
  const translate = (name: string, scope: Scope): string => {
    const colon = name.indexOf(':')
    const usual = scope.get(name.slice(0, Math.max(0, colon)))
    if (usual === undefined) return name
    const local = name.slice(colon + 1)
    return usual === '' ? local : `${usual}:${local}`
  }
  return {
    open(name, attributes) {
      const scope = declare(attributes, scopes.at(-1)!)
      scopes.push(scope)
      const entries = Object.entries(attributes).map(([key, value]) => [key.includes(':') ? translate(key, scope) : key, value])
      open?.(translate(name, scope), Object.fromEntries(entries))
    },
    ...(text && { text }),
    close(name) {
      close?.(translate(name, scopes.at(-1)!))
      if (scopes.length > 1) scopes.pop()
    },
  }
}

/** Returns the scope of an element: that of its parent, and its own declarations. */
function declare(attributes: Readonly<Record<string, string>>, parent: Scope): Scope {
  const names = Object.keys(attributes).filter((name) => /^xmlns(:|$)/.test(name))
  if (names.length === 0) return parent
  const scope = new Map(parent)
  for (const name of names) {
    const usual = usualPrefix(attributes[name] ?? '')
    if (usual === undefined) scope.delete(name.slice(6))
    else scope.set(name.slice(6), usual)
  }
  return scope
}
