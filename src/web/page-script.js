// Script of the page. Search and reading work without it; it adds shortcuts, uploads by drop with progress, and a queue that refreshes itself.
document.documentElement.classList.add('scripted')

const search = document.querySelector('#q')
const parallelUploads = 2
/** Pauses before an upload is sent again after the connection broke, in seconds. */
const retryDelaysSecs = [1, 2, 4, 8, 15, 30]
/** Each refresh is three calls of the API. */
const refreshMs = 10_000

/** Ctrl+K goes to the search field, arrows from there to the results and between them. Keys without Ctrl belong to speech input and the browser. */
document.addEventListener('keydown', (event) => {
  const { key, target } = event
  if (event.isComposing) return
  if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && key.toLowerCase() === 'k' && search) {
    event.preventDefault()
    search.focus()
    search.select()
  }
  if (event.ctrlKey || event.metaKey || event.altKey) return
  const isTyping = target.matches('input, textarea, select') && target !== search
  if (isTyping) return
  if (key === 'Escape' && target === search) search.blur()
  if (key !== 'ArrowDown' && key !== 'ArrowUp') return
  const results = [...document.querySelectorAll('.results h2 a')]
  const index = results.indexOf(target)
  if (index === -1 && target !== search) return
  const next = key === 'ArrowDown' ? results[index + 1] : index > 0 ? results[index - 1] : search
  if (!next) return
  event.preventDefault()
  next.focus()
})

/** Returns an element with text, never with markup. */
function element(name, text = '', attributes = {}) {
  const created = document.createElement(name)
  created.textContent = text
  for (const [attribute, value] of Object.entries(attributes)) created.setAttribute(attribute, value)
  return created
}

function uploadList() {
  const existing = document.querySelector('.uploads')
  if (existing) return existing
  const list = element('ul', '', { class: 'uploads', 'aria-label': 'Uploads', 'aria-live': 'polite' })
  const place = document.querySelector('.drop') ?? document.querySelector('main').firstElementChild
  place.before(list)
  return list
}

const waiting = []
let running = 0
/** Uploads whose connection broke. Later files wait for them. */
let broken = 0

function enqueue(files) {
  const maxBytes = Number(document.querySelector('main').dataset.maxBytes)
  for (const file of files) {
    const item = element('li')
    item.append(element('span', file.name))
    uploadList().append(item)
    if (file.size > maxBytes) finish(item, 'bad', 'Larger than this server accepts')
    else addWaiting({ file, item, key: createKey(), attempt: 0 })
  }
  startWaiting()
}

/** Returns an idempotency key. A repeated upload stores the file once. Pages without TLS have no randomUUID. */
const createKey = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('')

function addWaiting(upload) {
  upload.item.className = ''
  show(upload.item, element('span', 'Waiting'))
  waiting.push(upload)
}

function startWaiting() {
  while (broken === 0 && running < parallelUploads && waiting.length > 0) {
    const next = waiting.shift()
    running++
    send(next).finally(() => {
      running--
      startWaiting()
    })
  }
}

/** Replaces everything behind the name of a file. */
function show(item, ...parts) {
  while (item.children.length > 1) item.lastElementChild.remove()
  item.append(...parts)
}

function finish(item, kind, text) {
  item.className = kind
  show(item, element('span', text))
}

/** Returns whether a file can be read. A folder cannot: its request fails as if the connection had broken. */
async function canRead(file) {
  const reader = file.stream().getReader()
  try {
    await reader.read()
    await reader.cancel()
    return true
  } catch {
    return false
  }
}

const sleep = (secs) => new Promise((resolve) => setTimeout(resolve, secs * 1000))

/** Sends a file. Waits and repeats if the server asks for it, or if the connection breaks; offers another attempt after a failure. */
async function send(upload) {
  const { file, item, attempt } = upload
  const isReadable = await canRead(file)
  const { status, answer, wait } = isReadable ? await post(upload) : { status: 0 }
  if ((status === 429 || status === 503) && wait > 0) {
    finish(item, '', `Waiting ${wait} s, the server is busy`)
    await sleep(wait)
    return send(upload)
  }
  const delay = retryDelaysSecs[attempt]
  if (isReadable && status === 0 && delay !== undefined) {
    finish(item, '', `The connection broke. Trying again in ${delay} s`)
    broken++
    await sleep(delay)
    return send({ ...upload, attempt: attempt + 1 }).finally(() => {
      broken--
    })
  }
  const [result] = answer?.documents ?? []
  if (result?.status === 'uploaded') {
    item.firstElementChild.replaceWith(element('a', file.name, { href: `/documents/${encodeURIComponent(result.id)}` }))
    return finish(item, 'good', result.created ? 'Uploaded' : 'Was there already')
  }
  finish(item, 'bad', isReadable ? (result?.error?.message ?? reasonOf(status, answer)) : 'This is a folder, or cannot be read')
  if (!isWorthRetrying(status, result)) return
  const again = element('button', 'Try again', { type: 'button', class: 'plain' })
  again.addEventListener('click', () => {
    addWaiting({ ...upload, key: createKey(), attempt: 0 })
    startWaiting()
  })
  item.append(again)
}

/** Returns whether another attempt may succeed: not for a file that the server refuses. */
const isWorthRetrying = (status, result) =>
  result ? /UNAVAILABLE|INTERNAL/.test(result.error.code) : status < 400 || status >= 500 || status === 401 || status === 429

/** Returns the reason of a failure. A proxy before this server answers without a message. */
function reasonOf(status, answer) {
  if (status === 401) return 'You are signed out. Sign in in another tab.'
  if (answer?.error) return answer.error.message
  if (status === 413) return 'Larger than the proxy of this server accepts'
  return status === 0 ? 'The connection broke' : `The server answered with ${status}`
}

function post({ file, item, key }) {
  return new Promise((resolve) => {
    const request = new XMLHttpRequest()
    const progress = element('progress', '', { max: '100', value: '0', 'aria-label': `Upload of ${file.name}` })
    show(item, progress)
    request.upload.onprogress = ({ loaded, total }) => {
      progress.value = (100 * loaded) / total
    }
    request.onloadend = () =>
      resolve({ status: request.status, answer: request.response, wait: Number(request.getResponseHeader('retry-after')) })
    request.open('POST', '/upload')
    request.setRequestHeader('accept', 'application/json')
    request.setRequestHeader('idempotency-key', key)
    request.responseType = 'json'
    const form = new FormData()
    form.append('files', file)
    request.send(form)
  })
}

/** Files can be dropped on every page of a signed-in user. */
if (search) {
  const hasFiles = (event) => event.dataTransfer?.types.includes('Files')
  document.addEventListener('dragover', (event) => {
    if (!hasFiles(event)) return
    event.preventDefault()
    document.body.classList.add('dropping')
  })
  document.addEventListener('dragleave', ({ relatedTarget }) => {
    if (!relatedTarget) document.body.classList.remove('dropping')
  })
  document.addEventListener('drop', (event) => {
    if (!hasFiles(event)) return
    event.preventDefault()
    document.body.classList.remove('dropping')
    enqueue(event.dataTransfer.files)
  })
  addEventListener('beforeunload', (event) => {
    if (running + waiting.length > 0) event.preventDefault()
  })
}

const dropForm = document.querySelector('form.drop')
dropForm?.addEventListener('submit', (event) => {
  event.preventDefault()
  const input = dropForm.querySelector('input[type=file]')
  enqueue(input.files)
  input.value = ''
})

/** Refreshes the queue while jobs are active and the page is visible. */
async function refreshQueue() {
  const queue = document.querySelector('#queue')
  if (!queue) return
  try {
    if (document.hidden || Number(queue.dataset.active) === 0 || queue.contains(document.activeElement)) return
    const response = await fetch('/queue', { headers: { accept: 'text/html' } })
    if (response.redirected) return location.assign(response.url)
    const fresh = response.ok && new DOMParser().parseFromString(await response.text(), 'text/html').querySelector('#queue')
    if (fresh) queue.replaceWith(fresh)
  } catch {
    // The connection broke. The next refresh tries again.
  } finally {
    setTimeout(refreshQueue, refreshMs)
  }
}
setTimeout(refreshQueue, refreshMs)
